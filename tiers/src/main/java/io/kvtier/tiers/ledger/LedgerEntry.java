package io.kvtier.tiers.ledger;

import java.util.Arrays;
import java.util.HexFormat;
import java.util.Objects;

/** What a ledger says of one block. A flyweight: filled, handed over, filled again. */
public final class LedgerEntry {
  /** The width of {@link #key}. */
  public static final int KEY_BYTES_MAX = 32;

  /** The most bytes of an annotation. */
  public static final int ANNOTATION_BYTES_MAX = 2048;

  private static final byte[] NOTHING = {};

  /** The engine's sequence hash, zero-padded. */
  public final byte[] key = new byte[KEY_BYTES_MAX];

  /** How many bytes of {@link #key} count. */
  public int keyBytes;

  public int group;

  /** The namespace's fingerprint, 128 bits. */
  public long namespaceHigh;

  public long namespaceLow;

  /** The block's length in bytes. */
  public int length;

  /** CRC32C of the block's bytes. */
  public int checksum;

  /** The sequence number of the store that put the block there. */
  public long generation;

  /** The fingerprint of the block before it in its sequence. */
  public long parent;

  /** How many blocks stand before it in its sequence. */
  public int depth;

  /** What is kept with the block: the first {@link #annotationBytes} of these. */
  public byte[] annotation = NOTHING;

  public int annotationBytes;

  /** Makes room for an annotation of that many bytes, which the caller fills in. */
  public void annotate(int bytes) {
    if (annotation.length < bytes) {
      annotation = new byte[bytes];
    }
    annotationBytes = bytes;
  }

  /** Takes an annotation over. */
  public void setAnnotation(byte[] bytes, int count) {
    annotate(count);
    System.arraycopy(bytes, 0, annotation, 0, count);
  }

  /** Takes over all that another entry says. */
  public void set(LedgerEntry other) {
    System.arraycopy(other.key, 0, key, 0, KEY_BYTES_MAX);
    keyBytes = other.keyBytes;
    group = other.group;
    namespaceHigh = other.namespaceHigh;
    namespaceLow = other.namespaceLow;
    length = other.length;
    checksum = other.checksum;
    generation = other.generation;
    parent = other.parent;
    depth = other.depth;
    setAnnotation(other.annotation, other.annotationBytes);
  }

  /** An entry of its own that says the same. */
  public LedgerEntry copy() {
    LedgerEntry copy = new LedgerEntry();
    copy.set(this);
    return copy;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LedgerEntry entry
        && Arrays.equals(key, entry.key)
        && keyBytes == entry.keyBytes
        && group == entry.group
        && namespaceHigh == entry.namespaceHigh
        && namespaceLow == entry.namespaceLow
        && length == entry.length
        && checksum == entry.checksum
        && generation == entry.generation
        && parent == entry.parent
        && depth == entry.depth
        && Arrays.equals(
            annotation, 0, annotationBytes, entry.annotation, 0, entry.annotationBytes);
  }

  @Override
  public int hashCode() {
    return 31 * Arrays.hashCode(key)
        + Objects.hash(
            keyBytes,
            group,
            namespaceHigh,
            namespaceLow,
            length,
            checksum,
            generation,
            parent,
            depth,
            annotationBytes);
  }

  @Override
  public String toString() {
    HexFormat hex = HexFormat.of();
    return "key "
        + hex.formatHex(key, 0, Math.clamp(keyBytes, 0, KEY_BYTES_MAX))
        + ", group "
        + group
        + ", namespace "
        + hex.toHexDigits(namespaceHigh)
        + hex.toHexDigits(namespaceLow)
        + ", "
        + length
        + " bytes, checksum "
        + hex.toHexDigits(checksum)
        + ", generation "
        + generation
        + ", parent "
        + hex.toHexDigits(parent)
        + ", depth "
        + depth
        + ", annotation "
        + hex.formatHex(annotation, 0, annotationBytes);
  }
}
