package io.kvtier.tiers.object;

import io.kvtier.tiers.transfer.Transfer;
import java.util.HexFormat;

/** The names of objects: what is allowed in them, and which one a block has. */
public final class ObjectNames {
  /** S3's limit, and well below that of a path. */
  private static final int LENGTH_MAX = 1024;

  private static final int NAMESPACE_DIGITS = 32;
  private static final int FOLDER_BEGIN = NAMESPACE_DIGITS + 1;
  private static final int KEY_BEGIN = FOLDER_BEGIN + 3;
  private static final int GROUP_DIGITS_MAX = 5;

  /** What is no block stands below it. */
  private static final String RESERVED_FOLDER = "_kvtier";

  private static final int GROUP_MAX = 0xffff;

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

  /** Whether objects' names can begin with a folder of that name, blocks' or others'. */
  static boolean isTopFolder(String folder) {
    return folder.equals(RESERVED_FOLDER)
        || (folder.length() == NAMESPACE_DIGITS && isHex(folder, 0, NAMESPACE_DIGITS));
  }

  /** What the names of all of a namespace's objects start with. */
  public static String ofNamespace(long namespaceHigh, long namespaceLow) {
    HexFormat hex = HexFormat.of();
    return hex.toHexDigits(namespaceHigh) + hex.toHexDigits(namespaceLow) + '/';
  }

  /**
   * What {@link #ofBlock} made a name of: namespace, key and group, into a transfer.
   *
   * @return false for a name that it never makes; the transfer holds anything then
   */
  public static boolean readBlock(String name, Transfer into) {
    int dot = name.indexOf('.');
    int keyEnd = dot < 0 ? name.length() : dot;
    int digits = keyEnd - KEY_BEGIN;
    if (digits < 2
        || digits % 2 != 0
        || digits > 2 * into.key.length
        || name.charAt(NAMESPACE_DIGITS) != '/'
        || name.charAt(KEY_BEGIN - 1) != '/'
        || !isHex(name, 0, NAMESPACE_DIGITS)
        || !isHex(name, KEY_BEGIN, keyEnd)
        || !name.regionMatches(FOLDER_BEGIN, name, KEY_BEGIN, 2)) {
      return false;
    }
    into.namespaceHigh = HexFormat.fromHexDigitsToLong(name, 0, NAMESPACE_DIGITS / 2);
    into.namespaceLow = HexFormat.fromHexDigitsToLong(name, NAMESPACE_DIGITS / 2, NAMESPACE_DIGITS);
    into.keyBytes = digits / 2;
    for (int i = 0; i < into.key.length; i++) {
      int at = KEY_BEGIN + 2 * i;
      into.key[i] = at < keyEnd ? (byte) HexFormat.fromHexDigits(name, at, at + 2) : 0;
    }
    into.group = dot < 0 ? 0 : group(name, dot + 1);
    return into.group >= 0;
  }

  /** The group that a name ends with, or -1. */
  private static int group(String name, int begin) {
    int digits = name.length() - begin - 1;
    if (digits < 1
        || digits > GROUP_DIGITS_MAX
        || name.charAt(begin) != 'g'
        || name.charAt(begin + 1) == '0') {
      return -1;
    }
    int group = 0;
    for (int i = begin + 1; i < name.length(); i++) {
      char c = name.charAt(i);
      if (c < '0' || c > '9') {
        return -1;
      }
      group = 10 * group + c - '0';
    }
    return group > GROUP_MAX ? -1 : group;
  }

  private static boolean isHex(String name, int begin, int end) {
    for (int i = begin; i < end; i++) {
      char c = name.charAt(i);
      if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) {
        return false;
      }
    }
    return true;
  }

  /**
   * A store's prefix as its names are made with it: empty, or ending with one slash.
   *
   * @throws IllegalArgumentException naming what is wrong
   */
  public static String checkPrefix(String prefix) {
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
  public static void check(String name) {
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
