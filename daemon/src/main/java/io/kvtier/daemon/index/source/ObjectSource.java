package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Pipeline;
import java.util.function.IntPredicate;

/**
 * The object store as a source: {@link ObjectLine} has the known objects; the others are asked for.
 */
public final class ObjectSource extends ProbedSource {
  private static final Traits TRAITS = Traits.ofObjects(Latencies.Kind.LOAD_OBJECT);

  private final ObjectLine objects;
  private final ObjectParts parts;
  private final Directory directory;

  /**
   * The store as a source of an index.
   *
   * @param isAwaited whether a request waits for a block
   * @param waitingMax the most blocks of gets that wait for an answer
   */
  public ObjectSource(
      ObjectLine objects,
      ObjectParts parts,
      Directory directory,
      Namespaces namespaces,
      IntPredicate isAwaited,
      int waitingMax) {
    super(
        new ObjectProbes(
            objects::isOpen,
            parts.contents().presence(),
            parts.bell(),
            directory,
            namespaces,
            isAwaited,
            waitingMax,
            ObjectProbes.ASKED_FIRST));
    this.objects = objects;
    this.parts = parts;
    this.directory = directory;
  }

  @Override
  public Traits traits() {
    return TRAITS;
  }

  @Override
  public boolean keepsForms() {
    return true;
  }

  @Override
  public Pipeline pipeline() {
    return parts.traffic().pipeline();
  }

  @Override
  public int depth() {
    return parts.traffic().depth();
  }

  @Override
  public boolean isOpen() {
    return objects.isOpen();
  }

  @Override
  public Presence presenceOfSought(Namespaces.Namespace namespace, int keyBytes, int group) {
    return objects.presenceOfSought(namespace, keyBytes, group);
  }

  @Override
  public Presence presenceOf(int block) {
    return objects.presenceOf(block);
  }

  @Override
  public boolean has(int block) {
    return directory.has(Directory.FLAG_OBJECT, block);
  }

  @Override
  public void fetched(int block, Status status) {
    switch (status) {
      case OK -> objects.know(block, true);
      case MISS, CORRUPT -> objects.gone(block);
      default -> directory.set(Directory.FLAG_OBJECT, block, false);
    }
  }
}
