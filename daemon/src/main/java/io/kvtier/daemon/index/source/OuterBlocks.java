package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.outer.OuterTier;
import io.kvtier.tiers.transfer.Pipeline;
import java.util.function.IntPredicate;

/**
 * A plug-in's source as the index sees it. Its blocks are counted, and shown to clients, with those
 * of the object store: both come from outside this node.
 */
public final class OuterBlocks extends ProbedSource {
  private static final Traits TRAITS = Traits.ofObjects(null);

  private final OuterTier outer;
  private final BlockObjects objects;

  private OuterBlocks(
      OuterTier outer,
      Runnable bell,
      Directory directory,
      Namespaces namespaces,
      IntPredicate isAwaited,
      int waitingMax) {
    super(
        new ObjectProbes(
            outer::isOpen, outer.presence(), bell, directory, namespaces, isAwaited, waitingMax));
    this.outer = outer;
    objects = new BlockObjects(directory, namespaces);
  }

  /** Makes the source for an index, whose bell wakes it. */
  public static Opener opener(OuterTier outer, Runnable bell) {
    return (directory, namespaces, isAwaited, waitingMax) ->
        new OuterBlocks(outer, bell, directory, namespaces, isAwaited, waitingMax);
  }

  @Override
  public Traits traits() {
    return TRAITS;
  }

  @Override
  public Pipeline pipeline() {
    return outer.pipeline();
  }

  @Override
  public int depth() {
    return OuterTier.DEPTH;
  }

  @Override
  public boolean isOpen() {
    return outer.isOpen();
  }

  @Override
  public Presence presenceOfSought(Namespaces.Namespace namespace, int keyBytes, int group) {
    return outer.presence().lookup(objects.keyOfSought(namespace, keyBytes, group));
  }

  @Override
  public Presence presenceOf(int block) {
    return outer.presence().lookup(objects.keyOf(block));
  }

  @Override
  public boolean has(int block) {
    return presenceOf(block) == Presence.PRESENT;
  }

  @Override
  public void fetched(int block, Status status) {
    switch (status) {
      case OK -> outer.presence().present(objects.keyOf(block));
      case MISS, CORRUPT -> outer.presence().absent(objects.keyOf(block));
      default -> outer.presence().forget(objects.keyOf(block));
    }
  }
}
