package io.kvtier.daemon.node;

import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeLink;

/** The simulated network is a network. */
class SimulatedNetworkTest extends NodeTransportContract {
  @Override
  Pair open(NodeLink.Listener acceptor) {
    SimulatedNetwork network = SimulatedNetwork.withoutFaults(System::nanoTime);
    NodeAddress address = new NodeAddress("holder", 7076);
    SimulatedNetwork.Transport to = network.transport(address);
    to.accept(make -> {
      var _ = make.apply(acceptor);
      return true;
    });
    return new Pair(network.transport(new NodeAddress("reader", 7076)), to, address);
  }
}
