package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.session.Session;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The regions: all of them by their ids, and those that each session can name. A region that its
 * session can no longer name stays until it is closed. Confined to the index.
 */
final class RegionTable {
  private final Map<Integer, Region> all = new HashMap<>();

  /** By the session's place; null: the session never had a region. */
  private final @Nullable List<Region>[] ofSession;

  /** Without regions. */
  @SuppressWarnings({"unchecked", "rawtypes"}) // an array of a generic type
  RegionTable(int sessionsMax) {
    ofSession = new List[sessionsMax];
  }

  /** Adds a region of a session. */
  void add(Session session, Region region) {
    all.put(region.id, region);
    List<Region> regions = ofSession[session.index];
    if (regions == null) {
      regions = new ArrayList<>();
      ofSession[session.index] = regions;
    }
    regions.add(region);
  }

  /** The region with an id; null when it was closed. */
  @Nullable Region byId(int id) {
    return all.get(id);
  }

  /** All regions that are not closed. */
  Collection<Region> all() {
    return all.values();
  }

  /** The region of a session with an id; null when the session has no such region. */
  @Nullable Region of(Session session, int id) {
    List<Region> regions = of(session);
    for (int i = 0; i < regions.size(); i++) {
      if (regions.get(i).id == id) {
        return regions.get(i);
      }
    }
    return null;
  }

  /** The regions that a session can name. */
  List<Region> of(Session session) {
    List<Region> regions = ofSession[session.index];
    return regions == null ? List.of() : regions;
  }

  /** The session can no longer name a region. */
  void leave(Session session, Region region) {
    List<Region> regions = ofSession[session.index];
    if (regions != null) {
      boolean ignored = regions.remove(region);
    }
  }

  /** The session can no longer name any region. */
  void leaveAll(Session session) {
    ofSession[session.index] = null;
  }

  /** A region is closed, or could not be opened. */
  void remove(Region region) {
    all.remove(region.id);
  }

  boolean isEmpty() {
    return all.isEmpty();
  }

  int size() {
    return all.size();
  }
}
