package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Namespaces;

/** A source that asks its questions through {@link ObjectProbes}. Confined to the index. */
abstract class ProbedSource implements BlockSource {
  private final ObjectProbes probes;

  ProbedSource(ObjectProbes probes) {
    this.probes = probes;
  }

  @Override
  public final boolean seek(Namespaces.Namespace namespace, int group, int keyBytes) {
    return probes.seek(namespace, group, keyBytes);
  }

  @Override
  public final void endLookup() {
    probes.endLookup();
  }

  @Override
  public final boolean ask(int block, int priority, boolean prefetch) {
    return probes.probe(block, priority, prefetch);
  }

  @Override
  public final int collect(Finder finder) {
    return probes.collect(finder);
  }

  @Override
  public final boolean hasFound() {
    return probes.hasFound();
  }

  @Override
  public final void advance() {
    probes.advance();
  }

  @Override
  public final int waiting() {
    return probes.waiting();
  }

  @Override
  public final void checkInvariants() {
    probes.checkInvariants();
  }
}
