package io.kvtier.protocol;

/**
 * The layout of the body of ANNOTATE: entries, one after the other, each of one block. The count of
 * the request is the bytes of all of them. Behind the header of an entry stand the key and the
 * annotation, each zero-padded to a multiple of 8.
 *
 * <p>Little-endian. Generated from protocol/schema.toml.
 *
 * <pre>
 * entry
 *     0 u8  key bytes
 *     1 u8  zero
 *     2 u16 annotation bytes
 *     4 u32 zero
 *     8 end
 * </pre>
 */
public final class AnnotationDescriptor {
  /** The most bytes of one block's annotation. */
  public static final int ANNOTATION_BYTES_MAX = 2048;

  /** The most bytes of the entries of one request. */
  public static final int BODY_BYTES_MAX = 4096;

  // Entry
  public static final int KEY_BYTES_OFFSET = 0;
  public static final int ANNOTATION_BYTES_OFFSET = 2;
  public static final int KEY_OFFSET = 8;

  private AnnotationDescriptor() {}
}
