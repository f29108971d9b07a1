package io.kvtier.tiers.node;

import java.io.IOException;

/**
 * Moves the bytes of blocks beside the links of one transport. Frames stay on the links, which say
 * who sends them. Confined to the transport's thread.
 */
public interface Fabric extends AutoCloseable {
  /**
   * Opens this side of the path of one link.
   *
   * @param bell runs, on any thread, when the path has something to do
   * @throws IOException saying why there is no path
   */
  FabricPath open(Runnable bell) throws IOException;

  /** Ends the fabric, after its paths. */
  @Override
  void close();
}
