package io.kvtier.tiers.node;

/**
 * Moves frames and blocks between daemons. All methods, except {@link #wake}, belong to one thread,
 * which also gets all calls of {@link NodeLink.Listener}.
 */
public interface NodeTransport extends AutoCloseable {
  /** Begins to connect. The link opens or closes later, never before the next {@link #poll}. */
  NodeLink connect(NodeAddress address, NodeLink.Listener listener);

  /**
   * Sends what is queued, and receives what has come.
   *
   * @param waitNs the longest wait if there is nothing to do
   * @return how much was done; 0 if nothing
   */
  int poll(long waitNs);

  /** Ends a wait in {@link #poll}; from any thread. */
  void wake();

  /** The time of the transport, ns. */
  long nowNs();

  /** Closes all links. */
  @Override
  void close();
}
