package io.kvtier.tiers.object;

import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Objects that this node found and can't read, though others may: of another key, of none, of
 * another version. They are nobody's damage, so they stay where they are. The names of the latest
 * are remembered, and one line a minute at most says so. For one thread.
 */
final class OthersObjects {
  private static final Logger LOG = LoggerFactory.getLogger(OthersObjects.class);
  private static final int NAMES_MAX = 4096;
  private static final long QUIET_NS = TimeUnit.MINUTES.toNanos(1);

  private final Set<String> names = new LinkedHashSet<>();
  private boolean hasSaid;
  private long saidNs;
  private long unsaid;

  /**
   * Remembers one.
   *
   * @param what it is
   * @param cure what an operator may do about it
   */
  void add(String name, String what, String cure, long nowNs) {
    // The one that was met last is forgotten last.
    names.remove(name);
    names.add(name);
    if (names.size() > NAMES_MAX) {
      Iterator<String> eldest = names.iterator();
      eldest.next();
      eldest.remove();
    }
    if (hasSaid && nowNs - saidNs < QUIET_NS) {
      unsaid++;
      return;
    }
    LOG.warn(
        "object '{}' {}: it counts as missing and stays as it is. {}{}",
        name,
        what,
        cure,
        unsaid == 0 ? "" : " (" + unsaid + " more loads met such objects since this was said)");
    hasSaid = true;
    saidNs = nowNs;
    unsaid = 0;
  }

  boolean contains(String name) {
    return names.contains(name);
  }

  /** It is gone, or can be read. */
  void remove(String name) {
    names.remove(name);
  }
}
