package io.kvtier.tiers.outer;

import java.io.IOException;

/**
 * Opens a source of blocks that {@code plugins.sources} names. Found by {@link
 * java.util.ServiceLoader} in the jars of plug-ins: a jar names its provider in {@code
 * META-INF/services/io.kvtier.tiers.outer.OuterSourceProvider}.
 */
public interface OuterSourceProvider {
  /** The name by which the configuration chooses the source: lower case. */
  String name();

  /**
   * Opens a source when the daemon starts.
   *
   * @throws IllegalArgumentException naming an option that is wrong, and what is expected
   * @throws IOException when the source can't be used: the daemon does not start
   */
  OuterSource open(OuterSourceSetup setup) throws IOException;
}
