package io.kvtier.daemon.member;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.tiers.node.NodeAddress;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class StaticMembershipTest {
  @Test
  void start_tellsOfEachNodeOfTheListOnce() {
    List<NodeAddress> addresses = List.of(new NodeAddress("a", 1), new NodeAddress("b", 2));
    List<Member> told = new ArrayList<>();
    try (StaticMembership membership = new StaticMembership(addresses)) {
      membership.start(
          new Membership.Listener() {
            @Override
            public void joined(Member member) {
              told.add(member);
            }

            @Override
            public void left(Member member) {
              throw new AssertionError("a node of a list leaves");
            }
          });
    }
    assertEquals(addresses, told.stream().map(Member::address).toList());
  }
}
