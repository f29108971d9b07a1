package io.kvtier.tiers.object.janitor;

import java.util.Locale;

/** What a {@link JanitorReport} counts objects and bytes of. */
public enum JanitorCount {
  SEEN("blocks that the last look over the store found"),
  LEFT("blocks there after it"),
  YOUNG("of those, blocks that were written or used within the grace time"),
  DELETED("blocks deleted by this run"),
  VERIFIED("blocks that were read and checked"),
  CORRUPT("blocks that are damaged"),
  UNREADABLE("blocks that this node cannot read, such as those of another version"),
  RESERVED("objects by which nodes tell each other things"),
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
