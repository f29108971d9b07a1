package io.kvtier.daemon.grpc;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The places of calls, of which each tenant has as many as {@link CallLimits} say. Where they are
 * all taken, a call that has said nothing yet loses its own to one that comes: whoever opens calls
 * and leaves them so keeps nobody else out. From any thread.
 */
final class CallPlaces {
  /** A call's first message comes with it, or right behind it. */
  private static final long SILENT_NS = 10_000_000;

  private final CallLimits limits;

  /** By tenant: on connections that never had a call with a message, oldest first; on others. */
  private final List<Set<Place>> strangers;

  private final List<Set<Place>> others;

  CallPlaces(CallLimits limits, int tenants) {
    this.limits = limits;
    this.strangers = sets(tenants);
    this.others = sets(tenants);
  }

  private static List<Set<Place>> sets(int count) {
    return Stream.<Set<Place>>generate(LinkedHashSet::new).limit(count).toList();
  }

  /** The place of one call, from its beginning to its end. */
  final class Place {
    private final int tenant;
    private final boolean carriesBytes;
    private final Set<Place> silent;
    private final long sinceNs = System.nanoTime();

    /** Guarded by the places, as the others. */
    private boolean isTaken;

    private boolean isOver;
    private @Nullable Runnable onTaken;

    private Place(int tenant, boolean carriesBytes, Set<Place> silent) {
      this.tenant = tenant;
      this.carriesBytes = carriesBytes;
      this.silent = silent;
    }

    /** Has something done, once, when another call takes the place; by that call's thread. */
    void whenTaken(Runnable then) {
      synchronized (CallPlaces.this) {
        if (!isTaken) {
          onTaken = then;
          return;
        }
      }
      then.run();
    }

    /** The call has had its message: nobody takes its place. */
    void heard() {
      synchronized (CallPlaces.this) {
        silent.remove(this);
      }
    }

    /** The call is over. */
    void end() {
      synchronized (CallPlaces.this) {
        silent.remove(this);
        if (isTaken || isOver) {
          return;
        }
        isOver = true;
      }
      limits.end(tenant, carriesBytes);
    }
  }

  /**
   * A place for a call, which must {@link Place#end}; null when there is none.
   *
   * @param carriesBytes takes a place of those alone that carry bytes
   * @param isKnown whether its connection has had a call with a message
   * @param isOnly whether its connection has no other call, and has taken all earlier answers
   */
  @Nullable Place begin(int tenant, boolean carriesBytes, boolean isKnown, boolean isOnly) {
    Set<Place> silent = (isKnown ? others : strangers).get(tenant);
    Place place = new Place(tenant, carriesBytes, silent);
    Runnable onTaken = null;
    boolean isFree = limits.begin(tenant, carriesBytes, isOnly);
    boolean givesBytes = false;
    synchronized (this) {
      if (!isFree) {
        Place loser = loser(tenant, carriesBytes);
        if (loser == null) {
          return null;
        }
        // It is not given back in between, when somebody else could have it.
        loser.silent.remove(loser);
        loser.isTaken = true;
        onTaken = loser.onTaken;
        givesBytes = loser.carriesBytes && !carriesBytes;
      }
      silent.add(place);
    }
    if (givesBytes) {
      limits.endBytes(tenant);
    }
    if (onTaken != null) {
      onTaken.run();
    }
    return place;
  }

  private @Nullable Place loser(int tenant, boolean carriesBytes) {
    Place stranger = oldest(strangers.get(tenant), carriesBytes);
    if (stranger != null) {
      return stranger;
    }
    Place other = oldest(others.get(tenant), carriesBytes);
    return other == null || System.nanoTime() - other.sinceNs < SILENT_NS ? null : other;
  }

  private static @Nullable Place oldest(Set<Place> silent, boolean carriesBytes) {
    for (Place place : silent) {
      if (!carriesBytes || place.carriesBytes) {
        return place;
      }
    }
    return null;
  }
}
