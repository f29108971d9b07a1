package io.kvtier.daemon.member;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.SplittableRandom;

class SimulatedMembershipTest extends MembershipContract {
  private final SimulatedMembership cluster = new SimulatedMembership(new SplittableRandom(1));

  @Override
  Membership membership(Member self) {
    return cluster.of(self);
  }

  @Override
  void kill(Membership membership) {
    membership.close();
  }

  @Override
  void await(String what, Condition condition) {
    cluster.settle();
    assertTrue(condition.holds(), what);
  }
}
