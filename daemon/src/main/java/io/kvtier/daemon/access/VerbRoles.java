package io.kvtier.daemon.access;

import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import java.util.Arrays;

/** Which role a verb needs, on every transport. */
public final class VerbRoles {
  private static final int CODES_MAX = 64;
  private static final Role[] NEEDED = new Role[CODES_MAX];

  static {
    Arrays.fill(NEEDED, Role.ADMIN);
    for (Verb verb : Verb.values()) {
      NEEDED[verb.code()] = roleOf(verb);
    }
  }

  private VerbRoles() {}

  private static Role roleOf(Verb verb) {
    return switch (verb) {
      // To get a block one names a namespace, and gives back what one holds.
      case PING, REGISTER, UNREGISTER, LOOKUP, ACQUIRE, RELEASE, PREFETCH, CANCEL, STATS ->
          Role.READ;
      case LOOKUP_GROUPS, REGISTER_REGION, UNREGISTER_REGION, ONBOARD, REPORT_LOADS -> Role.READ;
      // Pins have no end of their own: who sets enough of them decides what others can put.
      case RESERVE, COMMIT, ABORT, OFFLOAD, ANNOTATE, PIN, UNPIN, DELETE, CLEAR, FLUSH ->
          Role.WRITE;
      // What one retains takes space that others could use.
      case RETAIN -> Role.WRITE;
      // What one advertises others get, as if it had been put.
      case ADVERTISE, REVOKE -> Role.WRITE;
      case ADMIN -> Role.ADMIN;
    };
  }

  /** The least role that may. */
  public static Role needed(Verb verb) {
    return NEEDED[verb.code()];
  }

  /** Whether a role may. */
  public static boolean mayCall(Role role, Verb verb) {
    return role.covers(NEEDED[verb.code()]);
  }

  /** Why a caller may not, in words. */
  public static String refusal(String what, Role has, Verb verb) {
    return what + " needs role " + needed(verb).word() + ", and this caller has " + has.word();
  }
}
