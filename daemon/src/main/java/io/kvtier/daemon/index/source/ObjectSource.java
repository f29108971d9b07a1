package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Pipeline;

/** The object store as a source: what is known is in {@link ObjectLine}, the rest is probed. */
public final class ObjectSource implements BlockSource {
  private static final Traits TRAITS =
      new Traits(
          TierId.OBJECT,
          Latencies.Kind.LOAD_OBJECT,
          Counter.HITS_OBJECT,
          Counter.OBJECT_FETCHED,
          Counter.OBJECT_READ_BYTES,
          Counter.OBJECT_ERRORS);

  private final ObjectLine objects;
  private final ObjectProbes probes;
  private final ObjectParts parts;
  private final Directory directory;

  public ObjectSource(
      ObjectLine objects, ObjectProbes probes, ObjectParts parts, Directory directory) {
    this.objects = objects;
    this.probes = probes;
    this.parts = parts;
    this.directory = directory;
  }

  @Override
  public Traits traits() {
    return TRAITS;
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
      case OK -> objects.know(block, true);
      case MISS, CORRUPT -> objects.gone(block);
      default -> directory.set(Directory.FLAG_OBJECT, block, false);
    }
  }

  @Override
  public void checkInvariants() {
    probes.checkInvariants();
  }
}
