package io.kvtier.daemon.member;

import io.kvtier.tiers.node.NodeAddress;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.AbstractCollection;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.jgroups.PhysicalAddress;
import org.jgroups.stack.IpAddress;

/**
 * The addresses where JGroups seeks members: all addresses of some names, resolved anew each time
 * that they are read. A name that is not known is passed over: a node that has not started has no
 * name in some networks. Safe for several threads.
 */
final class Seeds extends AbstractCollection<PhysicalAddress> {
  private final List<NodeAddress> names;
  private volatile Set<PhysicalAddress> found = Set.of();

  Seeds(List<NodeAddress> names) {
    this.names = List.copyOf(names);
  }

  @Override
  public Iterator<PhysicalAddress> iterator() {
    Set<PhysicalAddress> now = new LinkedHashSet<>();
    for (NodeAddress name : names) {
      try {
        for (InetAddress address : InetAddress.getAllByName(name.host())) {
          now.add(new IpAddress(address, name.port()));
        }
      } catch (UnknownHostException e) {
        // It may be known later.
      }
    }
    found = now;
    return now.iterator();
  }

  /** Whether the address was among those that were read last: asked often, and must not wait. */
  @Override
  public boolean contains(Object address) {
    return found.contains(address);
  }

  @Override
  public int size() {
    return found.size();
  }

  /** JGroups ignores what is empty at its start. */
  @Override
  public boolean isEmpty() {
    return false;
  }
}
