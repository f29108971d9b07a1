package io.kvtier.protocol.access;

import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** What a caller may do; each role may all that those before it may. */
public enum Role {
  /** Nothing. */
  NONE,
  /** Look blocks up and get them. */
  READ,
  /** Put, pin and delete blocks, too. */
  WRITE,
  /** Change the daemon, and see what all tenants do, too. */
  ADMIN;

  /** Whether this role may what that one may. */
  public boolean covers(Role needed) {
    return compareTo(needed) >= 0;
  }

  /** The role's name in configuration, tokens and messages. */
  public String word() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** The role of a name, or null. */
  public static @Nullable Role ofWord(String word) {
    for (Role role : values()) {
      if (role.word().equals(word)) {
        return role;
      }
    }
    return null;
  }
}
