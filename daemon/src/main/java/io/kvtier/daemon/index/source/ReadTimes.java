package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Namespaces;

/**
 * Estimates how long it takes to read some blocks of a source, which knows more than the mean of
 * its reads. Reused for each estimate. Confined to the index.
 */
public interface ReadTimes {
  /** Begins an estimate of blocks of one namespace. */
  void begin(Namespaces.Namespace namespace);

  /** One more block: the one whose key was sought last, and that the source is known to have. */
  void addSought(Namespaces.Namespace namespace, int keyBytes, int group);

  /** How long it would take to read the blocks, ns. */
  long estimatedNs();
}
