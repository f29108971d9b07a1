package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.outer.OuterTier;
import io.kvtier.tiers.transfer.Pipeline;
import java.util.function.IntPredicate;

/**
 * A plug-in's source as the index sees it. Its blocks are counted, and shown to clients, with those
 * of the object store: both come from outside this node.
 */
public final class OuterBlocks implements BlockSource {
  private static final Traits TRAITS =
      new Traits(
          TierId.OBJECT,
          null,
          Counter.HITS_OBJECT,
          Counter.OBJECT_FETCHED,
          Counter.OBJECT_READ_BYTES,
          Counter.OBJECT_ERRORS);

  private final OuterTier outer;
  private final Directory directory;
  private final Namespaces namespaces;
  private final ObjectProbes probes;
  private final byte[] key = new byte[Protocol.KEY_BYTES_MAX];

  private OuterBlocks(
      OuterTier outer,
      Runnable bell,
      Directory directory,
      Namespaces namespaces,
      IntPredicate isAwaited,
      int waitingMax) {
    this.outer = outer;
    this.directory = directory;
    this.namespaces = namespaces;
    probes =
        new ObjectProbes(
            outer::isOpen, outer.presence(), bell, directory, namespaces, isAwaited, waitingMax);
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
    directory.copySought(key);
    return outer
        .presence()
        .lookup(ObjectKey.of(namespace.high(), namespace.low(), key, keyBytes, group));
  }

  private ObjectKey keyOf(int block) {
    Namespaces.Namespace namespace = namespaces.of(directory, block);
    directory.copyKey(block, key);
    return ObjectKey.of(
        namespace.high(), namespace.low(), key, directory.keyBytes(block), directory.group(block));
  }

  @Override
  public Presence presenceOf(int block) {
    return outer.presence().lookup(keyOf(block));
  }

  @Override
  public boolean has(int block) {
    return presenceOf(block) == Presence.PRESENT;
  }

  @Override
  public boolean seek(Namespaces.Namespace namespace, int group, int keyBytes) {
    return probes.seek(namespace, group, keyBytes);
  }

  @Override
  public void endLookup() {
    probes.endLookup();
  }

  @Override
  public boolean ask(int block, int priority, boolean prefetch) {
    return probes.probe(block, priority, prefetch);
  }

  @Override
  public int collect(Finder finder) {
    return probes.collect(finder);
  }

  @Override
  public boolean hasFound() {
    return probes.hasFound();
  }

  @Override
  public void advance() {
    probes.advance();
  }

  @Override
  public int waiting() {
    return probes.waiting();
  }

  @Override
  public void fetched(int block, Status status) {
    switch (status) {
      case OK -> outer.presence().present(keyOf(block));
      case MISS, CORRUPT -> outer.presence().absent(keyOf(block));
      default -> outer.presence().forget(keyOf(block));
    }
  }

  @Override
  public void checkInvariants() {
    probes.checkInvariants();
  }
}
