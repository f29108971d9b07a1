package io.kvtier.tiers.object.janitor;

import java.util.Locale;

/** What a {@link JanitorReport} counts objects and bytes of. */
public enum JanitorCount {
  SEEN("blocks that the last pass over the store found"),
  LEFT("blocks that are in the store after this run"),
  YOUNG("blocks that were written or used within object.gc_grace, and stay"),
  DELETED("blocks deleted by this run"),
  VERIFIED("blocks that were read and checked"),
  CORRUPT("blocks that are damaged"),
  UNREADABLE("blocks that this node cannot read, such as those of another version"),
  RESERVED("objects that are kvtier's own records"),
  FOREIGN("objects that are not kvtier's, and are left alone");

  private final String meaning;

  JanitorCount(String meaning) {
    this.meaning = meaning;
  }

  /** Its name in JSON. */
  public String key() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** For people. */
  public String meaning() {
    return meaning;
  }
}
