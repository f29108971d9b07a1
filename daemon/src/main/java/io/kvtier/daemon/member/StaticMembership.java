package io.kvtier.daemon.member;

import io.kvtier.tiers.node.NodeAddress;
import java.util.List;

/** The nodes of a list, whether they run or not. */
public final class StaticMembership implements Membership {
  private final List<NodeAddress> addresses;

  /** Knows all nodes by their addresses; one of these may be this node's own. */
  public StaticMembership(List<NodeAddress> addresses) {
    this.addresses = List.copyOf(addresses);
  }

  @Override
  public void start(Listener listener) {
    addresses.forEach(address -> listener.joined(new Member(address, "", 0)));
  }

  @Override
  public String state() {
    return "static";
  }

  @Override
  public void close() {}
}
