package io.kvtier.protocol;

/**
 * The layout of the body of ANNOTATE: entries, one after the other, each of one block. The count of
 * the request is the bytes of all of them. Little-endian.
 *
 * <pre>
 *    0  u8 key bytes   1  u8 zero   2  u16 annotation bytes   4  u32 zero
 *    8  key, zero-padded to a multiple of 8
 *    .  annotation, zero-padded to a multiple of 8
 * </pre>
 */
public final class AnnotationDescriptor {
  public static final int KEY_BYTES_OFFSET = 0;
  public static final int ANNOTATION_BYTES_OFFSET = 2;
  public static final int KEY_OFFSET = 8;

  /** The most bytes of one block's annotation. */
  public static final int ANNOTATION_BYTES_MAX = 2048;

  /** The most bytes of the entries of one request. */
  public static final int BODY_BYTES_MAX = 4096;

  private AnnotationDescriptor() {}

  /** Where in an entry the annotation stands. */
  public static int annotationOffset(int keyBytes) {
    return KEY_OFFSET + RequestDescriptor.keyStride(keyBytes);
  }

  /** The bytes of an entry. */
  public static int entryBytes(int keyBytes, int annotationBytes) {
    return annotationOffset(keyBytes) + ((annotationBytes + 7) & ~7);
  }
}
