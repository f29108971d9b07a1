package io.kvtier.protocol;

import java.util.Arrays;

/** Fills the body of an ANNOTATE request, whose layout {@link AnnotationDescriptor} has. */
public final class AnnotationBody {
  private final byte[] bytes = new byte[AnnotationDescriptor.BODY_BYTES_MAX];
  private int size;

  /**
   * Adds a block's entry.
   *
   * @return false if the entry does not fit: the body must be taken first
   */
  public boolean add(byte[] key, byte[] annotation) {
    int entry = Records.annotationEntry(key.length, annotation.length);
    if (entry > bytes.length - size) {
      return false;
    }
    bytes[size + AnnotationDescriptor.KEY_BYTES_OFFSET] = (byte) key.length;
    int length = size + AnnotationDescriptor.ANNOTATION_BYTES_OFFSET;
    bytes[length] = (byte) annotation.length;
    bytes[length + 1] = (byte) (annotation.length >>> 8);
    System.arraycopy(key, 0, bytes, size + AnnotationDescriptor.KEY_OFFSET, key.length);
    System.arraycopy(
        annotation, 0, bytes, size + Records.annotationOffset(key.length), annotation.length);
    size += entry;
    return true;
  }

  public boolean isEmpty() {
    return size == 0;
  }

  /** Returns the entries, and begins the next body. */
  public byte[] take() {
    byte[] taken = Arrays.copyOf(bytes, size);
    Arrays.fill(bytes, 0, size, (byte) 0);
    size = 0;
    return taken;
  }
}
