package io.kvtier.daemon.member;

import io.kvtier.tiers.node.NodeAddress;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/**
 * The members of a simulated cluster. Each hears of the others sooner or later, and not of every
 * change: what came and went meanwhile is never told. Members can also take each other for gone
 * while both run.
 */
public final class SimulatedMembership {
  private final SplittableRandom random;
  private final Map<NodeAddress, View> views = new LinkedHashMap<>();
  private final Set<List<NodeAddress>> apart = new HashSet<>();

  /** A cluster without members. */
  public SimulatedMembership(SplittableRandom random) {
    this.random = random;
  }

  /** What a node gets to know, and by which the others get to know it, from its start on. */
  public Membership of(Member self) {
    return new View(self);
  }

  /** Two members take each other for gone, until all meet again. */
  public void part(NodeAddress one, NodeAddress other) {
    apart.add(List.of(one, other));
    apart.add(List.of(other, one));
  }

  /** All members meet again. */
  public void merge() {
    apart.clear();
  }

  /** Some members may hear of a change. */
  public void step() {
    for (View view : List.copyOf(views.values())) {
      if (random.nextInt(4) == 0) {
        view.hear();
      }
    }
  }

  /** Every member hears of all changes. */
  public void settle() {
    for (View view : List.copyOf(views.values())) {
      while (view.hear()) {
        // There is more to be told.
      }
    }
  }

  private final class View implements Membership {
    private final Member self;
    private final Map<NodeAddress, Member> known = new LinkedHashMap<>();
    private @Nullable Listener listener;

    View(Member self) {
      this.self = self;
    }

    @Override
    public void start(Listener by) {
      listener = by;
      views.put(self.address(), this);
    }

    @Override
    public String state() {
      return "simulated, " + known.size() + " others";
    }

    @Override
    public void close() {
      listener = null;
      views.remove(self.address(), this);
    }

    private @Nullable Member there(NodeAddress address) {
      View view = views.get(address);
      return view == null || view == this || apart.contains(List.of(self.address(), address))
          ? null
          : view.self;
    }

    /** Tells one change, if there is any. */
    boolean hear() {
      List<Runnable> changes = new ArrayList<>();
      Listener told = listener;
      if (told == null) {
        return false;
      }
      for (Member member : known.values()) {
        if (!member.equals(there(member.address()))) {
          changes.add(() -> {
            known.remove(member.address());
            told.left(member);
          });
        }
      }
      for (View view : views.values()) {
        Member member = there(view.self.address());
        if (member != null && !known.containsKey(member.address())) {
          changes.add(() -> {
            known.put(member.address(), member);
            told.joined(member);
          });
        }
      }
      if (changes.isEmpty()) {
        return false;
      }
      changes.get(random.nextInt(changes.size())).run();
      return true;
    }
  }
}
