package io.kvtier.tiers.object.janitor;

import java.util.Locale;

/** What an {@link ObjectJanitor} is to do. */
public sealed interface JanitorTask {
  /** For people and JSON. */
  String name();

  /**
   * Hold the cap: delete what was not used for longest until the bytes are below it, and remove
   * what writers and nodes left behind. One node at a time does it.
   */
  record Gc() implements JanitorTask {
    @Override
    public String name() {
      return "gc";
    }
  }

  /** Count objects and bytes, by namespace. */
  record Du() implements JanitorTask {
    @Override
    public String name() {
      return "du";
    }
  }

  /**
   * Read objects and check that each is the block that its name says.
   *
   * @param fraction of the objects, chosen anew by each run: above 0, and 1 for all
   * @param delete remove the ones that are damaged
   */
  record Verify(double fraction, boolean delete) implements JanitorTask {
    public Verify {
      if (!(fraction > 0 && fraction <= 1)) {
        throw new IllegalArgumentException(
            "the fraction of the objects to verify is above 0 and at most 1, not " + fraction);
      }
    }

    @Override
    public String name() {
      return "verify";
    }
  }

  /**
   * Delete all blocks of a namespace, however young.
   *
   * @param namespace its fingerprint in 32 hexadecimal digits, a slash behind it or not
   */
  record RemoveNamespace(String namespace) implements JanitorTask {
    private static final int DIGITS = 32;

    public RemoveNamespace {
      String bare =
          namespace.endsWith("/") ? namespace.substring(0, namespace.length() - 1) : namespace;
      if (bare.length() != DIGITS
          || !bare.equals(bare.toLowerCase(Locale.ROOT))
          || !bare.chars().allMatch(c -> Character.digit(c, 16) >= 0 && c < 128)) {
        throw new IllegalArgumentException(
            "a namespace to remove is named by the "
                + DIGITS
                + " hexadecimal digits (0-9 a-f) of its fingerprint, not '"
                + namespace
                + "'");
      }
      namespace = bare;
    }

    @Override
    public String name() {
      return "remove-namespace";
    }
  }
}
