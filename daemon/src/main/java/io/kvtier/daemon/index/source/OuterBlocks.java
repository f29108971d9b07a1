package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.node.NodeLoads;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.object.KnownBlocks;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.outer.OuterTier;
import io.kvtier.tiers.transfer.Pipeline;
import java.util.function.BooleanSupplier;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * A source that the daemon only reads, as the index sees it: a plug-in's source, or the memory of
 * other nodes.
 */
public final class OuterBlocks extends ProbedSource {
  /** Blocks of plug-ins count, and are shown to clients, as those of the object store. */
  private static final Traits OF_PLUG_IN = Traits.ofObjects(null);

  private static final Traits OF_NODES =
      new Traits(
          TierId.NODE,
          Latencies.Kind.LOAD_NODE,
          Counter.HITS_NODE,
          Counter.NODE_FETCHED,
          Counter.NODE_READ_BYTES,
          Counter.NODE_ERRORS);

  /**
   * What a source consists of.
   *
   * @param known its blocks, as far as is known
   * @param isOpen whether a read would be tried now
   * @param depth the most reads that are under way or wait
   * @param askedFirst the most blocks of a prefix that are asked for before any is known
   * @param keepsForms the answer of {@link #keepsForms}
   * @param forgetsAbsence whether {@link #forgetAbsence} forgets
   * @param loads estimates reads; null: they are estimated from those before
   */
  private record Parts(
      Traits traits,
      KnownBlocks known,
      Pipeline pipeline,
      BooleanSupplier isOpen,
      int depth,
      int askedFirst,
      boolean keepsForms,
      boolean forgetsAbsence,
      @Nullable NodeLoads loads) {}

  private final Parts parts;
  private final BlockObjects objects;

  private OuterBlocks(
      Parts parts,
      Runnable bell,
      Directory directory,
      Namespaces namespaces,
      IntPredicate isAwaited,
      int waitingMax) {
    super(
        new ObjectProbes(
            parts.isOpen,
            parts.known,
            bell,
            directory,
            namespaces,
            isAwaited,
            waitingMax,
            parts.askedFirst));
    this.parts = parts;
    objects = new BlockObjects(directory, namespaces);
  }

  /** Makes a plug-in's source for an index, whose bell wakes it. */
  public static Opener opener(OuterTier outer, Runnable bell) {
    return opener(
        new Parts(
            OF_PLUG_IN,
            outer.presence(),
            outer.pipeline(),
            outer::isOpen,
            OuterTier.DEPTH,
            ObjectProbes.ASKED_FIRST,
            false,
            false,
            null),
        bell);
  }

  /**
   * Makes the source of other nodes' blocks for an index, whose bell wakes it. Nodes answer for all
   * blocks of a lookup at once.
   */
  public static Opener opener(NodeTier nodes, Runnable bell) {
    return opener(
        new Parts(
            OF_NODES,
            nodes.known(),
            nodes.pipeline(),
            nodes::isOpen,
            NodeTier.DEPTH,
            nodes.known().probesMax(),
            true,
            true,
            nodes.loads()),
        bell);
  }

  private static Opener opener(Parts parts, Runnable bell) {
    return (core, isAwaited, waitingMax) ->
        new OuterBlocks(parts, bell, core.directory(), core.namespaces(), isAwaited, waitingMax);
  }

  @Override
  public Traits traits() {
    return parts.traits;
  }

  @Override
  public boolean keepsForms() {
    return parts.keepsForms;
  }

  @Override
  public Pipeline pipeline() {
    return parts.pipeline;
  }

  @Override
  public int depth() {
    return parts.depth;
  }

  @Override
  public boolean isOpen() {
    return parts.isOpen.getAsBoolean();
  }

  @Override
  public Presence presenceOfSought(Namespaces.Namespace namespace, int keyBytes, int group) {
    return known(parts.known.lookup(objects.keyOfSought(namespace, keyBytes, group)));
  }

  @Override
  public void forgetAbsence(Namespaces.Namespace namespace, int keyBytes, int group) {
    if (!parts.forgetsAbsence) {
      return;
    }
    ObjectKey key = objects.keyOfSought(namespace, keyBytes, group);
    if (parts.known.lookup(key) == Presence.ABSENT) {
      parts.known.forget(key);
    }
  }

  @Override
  public Presence presenceOf(int block) {
    return known(parts.known.lookup(objects.keyOf(block)));
  }

  /** A source that can't be asked keeps no lookup from asking the next one. */
  private Presence known(Presence presence) {
    return presence == Presence.UNKNOWN && !isOpen() ? Presence.ABSENT : presence;
  }

  @Override
  public @Nullable ReadTimes readTimes() {
    NodeLoads loads = parts.loads;
    return loads == null ? null : new NodeTimes(loads);
  }

  /** Estimates from the measured speed of each node. */
  private final class NodeTimes implements ReadTimes {
    private final NodeLoads loads;

    NodeTimes(NodeLoads loads) {
      this.loads = loads;
    }

    @Override
    public void begin(Namespaces.Namespace namespace) {
      loads.begin(namespace.blockBytes());
    }

    @Override
    public void addSought(Namespaces.Namespace namespace, int keyBytes, int group) {
      loads.add(objects.keyOfSought(namespace, keyBytes, group));
    }

    @Override
    public long estimatedNs() {
      return loads.estimatedNs();
    }
  }

  @Override
  public boolean has(int block) {
    return presenceOf(block) == Presence.PRESENT;
  }

  @Override
  public void fetched(int block, Status status) {
    switch (status) {
      case OK -> parts.known.present(objects.keyOf(block));
      case MISS, CORRUPT -> parts.known.absent(objects.keyOf(block));
      default -> parts.known.forget(objects.keyOf(block));
    }
  }
}
