package io.kvtier.tiers.ledger;

import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.core.util.ReadResolvable;
import net.openhft.chronicle.hash.serialization.SizedReader;
import net.openhft.chronicle.hash.serialization.SizedWriter;
import org.jspecify.annotations.Nullable;

/** Annotations as values of a Chronicle map. The map's file contains the name of this class. */
final class AnnotationMarshaller
    implements SizedReader<ChronicleAnnotations.Annotation>,
        SizedWriter<ChronicleAnnotations.Annotation>,
        ReadResolvable<AnnotationMarshaller> {
  static final AnnotationMarshaller INSTANCE = new AnnotationMarshaller();

  @Override
  public long size(ChronicleAnnotations.Annotation value) {
    return (long) Integer.BYTES + value.count;
  }

  @Override
  public void write(Bytes<?> out, long size, ChronicleAnnotations.Annotation value) {
    out.writeInt(value.checksum);
    out.write(value.bytes, 0, value.count);
  }

  /** An impossible length is damage: the annotation is then empty. */
  @Override
  public ChronicleAnnotations.Annotation read(
      Bytes<?> in, long size, ChronicleAnnotations.@Nullable Annotation using) {
    ChronicleAnnotations.Annotation value =
        using == null ? new ChronicleAnnotations.Annotation() : using;
    long count = size - Integer.BYTES;
    if (count < 0 || count > LedgerEntry.ANNOTATION_BYTES_MAX) {
      value.count = 0;
      return value;
    }
    value.checksum = in.readInt();
    value.count = (int) count;
    in.read(value.bytes, 0, value.count);
    return value;
  }

  @Override
  public AnnotationMarshaller readResolve() {
    return INSTANCE;
  }
}
