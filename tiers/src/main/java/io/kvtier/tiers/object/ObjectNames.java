package io.kvtier.tiers.object;

import java.util.HexFormat;

/** The names of objects: what is allowed in them, and which one a block has. */
public final class ObjectNames {
  /** S3's limit, and well below that of a path. */
  private static final int LENGTH_MAX = 1024;

  private ObjectNames() {}

  /**
   * The name of a block's object: {@code <namespace>/<first two digits>/<key>[.gGROUP]}, all in
   * hexadecimal but the group.
   */
  public static String ofBlock(
      long namespaceHigh, long namespaceLow, byte[] key, int keyBytes, int group) {
    HexFormat hex = HexFormat.of();
    StringBuilder name = new StringBuilder(2 * keyBytes + 48);
    name.append(ofNamespace(namespaceHigh, namespaceLow));
    hex.formatHex(name, key, 0, 1);
    name.append('/');
    hex.formatHex(name, key, 0, keyBytes);
    if (group != 0) {
      name.append(".g").append(group);
    }
    return name.toString();
  }

  /** What the names of all of a namespace's objects start with. */
  public static String ofNamespace(long namespaceHigh, long namespaceLow) {
    HexFormat hex = HexFormat.of();
    return hex.toHexDigits(namespaceHigh) + hex.toHexDigits(namespaceLow) + '/';
  }

  /**
   * A store's prefix as its names are made with it: empty, or ending with one slash.
   *
   * @throws IllegalArgumentException naming what is wrong
   */
  static String checkPrefix(String prefix) {
    if (prefix.isEmpty()) {
      return "";
    }
    String bare = prefix.endsWith("/") ? prefix.substring(0, prefix.length() - 1) : prefix;
    check(bare);
    return bare + '/';
  }

  /**
   * Refuses what is no name of an object.
   *
   * @throws IllegalArgumentException naming what is wrong
   */
  static void check(String name) {
    if (name.isEmpty() || name.length() > LENGTH_MAX) {
      throw new IllegalArgumentException(
          "the name of an object has 1 to " + LENGTH_MAX + " characters, '" + name + "' does not");
    }
    boolean begins = true;
    for (int i = 0; i < name.length(); i++) {
      char c = name.charAt(i);
      boolean separates = c == '/';
      if (separates ? begins || i == name.length() - 1 : !isAllowed(c) || (begins && c == '.')) {
        throw new IllegalArgumentException(
            "the name of an object is made of A-Z a-z 0-9 . _ - / with no empty part and none that"
                + " starts with a dot; '"
                + name
                + "' is not, at character "
                + (i + 1));
      }
      begins = separates;
    }
  }

  private static boolean isAllowed(char c) {
    return (c >= 'a' && c <= 'z')
        || (c >= 'A' && c <= 'Z')
        || (c >= '0' && c <= '9')
        || c == '.'
        || c == '_'
        || c == '-';
  }
}
