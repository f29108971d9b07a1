package io.kvtier.daemon.member;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.node.NodeAddress;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The promises of each membership whose nodes find each other. */
abstract class MembershipContract {
  private final List<Membership> open = new ArrayList<>();

  /** A membership of a node, which has not started. */
  abstract Membership membership(Member self) throws IOException;

  /** A node ends without a word. */
  abstract void kill(Membership membership);

  /** Waits until something holds, or fails. */
  abstract void await(String what, Condition condition) throws Exception;

  /** A condition that must hold in the end. */
  @FunctionalInterface
  interface Condition {
    boolean holds();
  }

  /** A node, which notes the members that it was told of. */
  final class Node implements Membership.Listener {
    final Member self;
    final Membership membership;
    private final Map<NodeAddress, Member> known = new LinkedHashMap<>();
    private final List<String> defects = new ArrayList<>();
    private final AtomicBoolean isTold = new AtomicBoolean();
    private boolean isClosed;

    Node(Member self) throws IOException {
      this.self = self;
      membership = membership(self);
      open.add(membership);
      membership.start(this);
    }

    /** Notes a change. A lock alone would hide that two threads tell at a time. */
    private void note(Runnable change) {
      boolean isAlone = isTold.compareAndSet(false, true);
      synchronized (this) {
        if (!isAlone) {
          defects.add("told of two things at a time");
        }
        if (isClosed) {
          defects.add("told after the end");
        }
        change.run();
      }
      isTold.set(false);
    }

    @Override
    public void joined(Member member) {
      note(() -> {
        Member before = known.put(member.address(), member);
        if (before != null) {
          defects.add(member + " came, and " + before + " had not left");
        }
      });
    }

    @Override
    public void left(Member member) {
      note(() -> {
        if (!known.remove(member.address(), member)) {
          defects.add(member + " left, and had not come");
        }
      });
    }

    synchronized boolean knows(Member... members) {
      return Set.copyOf(known.values()).equals(Set.of(members));
    }

    void close() {
      membership.close();
      synchronized (this) {
        isClosed = true;
      }
    }

    synchronized List<String> defects() {
      return List.copyOf(defects);
    }
  }

  private static Member member(int number, long incarnation) {
    return new Member(new NodeAddress("10.0.0." + number, 7076), "node-" + number, incarnation);
  }

  @AfterEach
  void closeAll() {
    open.forEach(Membership::close);
  }

  @Test
  void membersFindEachOther_andAreToldOfThoseWhoLeave() throws Exception {
    Node first = new Node(member(1, 11));
    Node second = new Node(member(2, 12));
    Node third = new Node(member(3, 13));
    await(
        "all know all",
        () ->
            first.knows(second.self, third.self)
                && second.knows(first.self, third.self)
                && third.knows(first.self, second.self));
    second.close();
    await("one has left", () -> first.knows(third.self) && third.knows(first.self));
    first.close();
    await("two have left", () -> third.knows());
    for (Node node : List.of(first, second, third)) {
      assertEquals(List.of(), node.defects());
    }
  }

  @Test
  void aloneMember_isToldOfNobody_norOfItself() throws Exception {
    Node alone = new Node(member(1, 11));
    Node other = new Node(member(2, 12));
    await("both know each other", () -> alone.knows(other.self) && other.knows(alone.self));
    kill(other.membership);
    await("it is alone", () -> alone.knows());
    assertEquals(List.of(), alone.defects());
  }

  @Test
  void killedMember_leaves_andComesBackAsAnotherStart() throws Exception {
    Node first = new Node(member(1, 11));
    Node second = new Node(member(2, 12));
    await("both know each other", () -> first.knows(second.self) && second.knows(first.self));
    kill(second.membership);
    Node again = new Node(member(2, 99));
    await("the new start is known", () -> first.knows(again.self) && again.knows(first.self));
    assertEquals(List.of(), first.defects());
    assertEquals(List.of(), again.defects());
  }

  @Test
  void closedMembership_tellsNothing_andCanBeClosedAgain() throws Exception {
    Node first = new Node(member(1, 11));
    first.close();
    Node second = new Node(member(2, 12));
    Node third = new Node(member(3, 13));
    await("both know each other", () -> second.knows(third.self) && third.knows(second.self));
    first.membership.close();
    assertTrue(first.knows());
    assertTrue(second.knows(third.self));
    assertEquals(List.of(), first.defects());
  }
}
