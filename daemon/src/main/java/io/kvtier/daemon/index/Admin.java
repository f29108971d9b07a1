package io.kvtier.daemon.index;

import io.kvtier.protocol.Status;
import java.util.Locale;

/**
 * What an operator may ask of a running daemon: one line of words, answered in words. Only root and
 * the daemon's own user may.
 */
final class Admin {
  private static final String USAGE =
      "expected 'policy TIER NAME', where TIER is host or ssd and NAME is an eviction policy,"
          + " or 'admission ssd NAME'";

  /** How a command ended. */
  record Answer(Status status, String text) {}

  private final BlockStore store;
  private final int daemonUser;

  /**
   * Commands over the tiers.
   *
   * @param daemonUser the user whom the daemon runs as
   */
  Admin(BlockStore store, int daemonUser) {
    this.store = store;
    this.daemonUser = daemonUser;
  }

  Answer run(Session session, String command) {
    if (session.peerUser() != 0 && session.peerUser() != daemonUser) {
      return new Answer(
          Status.DENIED,
          "user "
              + session.peerUser()
              + " may not change the daemon: only root and user "
              + daemonUser
              + " may");
    }
    String[] words = command.strip().split("\\s+", -1);
    if (words.length == 3 && words[0].equals("policy")) {
      return setPolicy(words[1].toLowerCase(Locale.ROOT), words[2]);
    }
    if (words.length == 3 && words[0].equals("admission") && words[1].equals("ssd")) {
      return setAdmission(words[2]);
    }
    return new Answer(Status.INVALID_ARGUMENT, "'" + command.strip() + "': " + USAGE);
  }

  private Answer setAdmission(String specification) {
    Ingestion ingestion = store.ingestion();
    String before = ingestion.admissionName();
    try {
      ingestion.swapAdmission(specification);
    } catch (IllegalArgumentException e) {
      return new Answer(Status.INVALID_ARGUMENT, String.valueOf(e.getMessage()));
    }
    return new Answer(Status.OK, "ssd admission: " + before + " -> " + ingestion.admissionName());
  }

  private Answer setPolicy(String tier, String specification) {
    TierLine line =
        switch (tier) {
          case "host" -> store.host();
          case "ssd" -> store.ssd();
          default -> null;
        };
    if (line == null) {
      return new Answer(Status.INVALID_ARGUMENT, "there is no tier '" + tier + "': " + USAGE);
    }
    String before = line.policyName();
    try {
      line.swapPolicy(specification);
    } catch (IllegalArgumentException e) {
      return new Answer(Status.INVALID_ARGUMENT, String.valueOf(e.getMessage()));
    }
    return new Answer(
        Status.OK,
        tier
            + ": "
            + before
            + " -> "
            + line.policyName()
            + ", "
            + line.resident()
            + " blocks taken over");
  }
}
