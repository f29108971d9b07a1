package io.kvtier.daemon.grpc;

import com.google.protobuf.ByteString;
import io.kvtier.protocol.AnnotationBody;
import io.kvtier.protocol.AnnotationDescriptor;
import io.kvtier.protocol.Counted;
import io.kvtier.protocol.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntPredicate;

/** What remote callers want kept with blocks, as the index takes it. */
final class AnnotationEntries {
  private AnnotationEntries() {}

  /** Checks what came over the wire: none, or one for each key. */
  static List<ByteString> of(List<ByteString> wire, int keys) throws RefusedException {
    if (!wire.isEmpty() && wire.size() != keys) {
      throw new RefusedException(
          Status.INVALID_ARGUMENT,
          Counted.of(wire.size(), "annotation") + " for " + Counted.of(keys, "key"));
    }
    for (ByteString annotation : wire) {
      if (annotation.size() > AnnotationDescriptor.ANNOTATION_BYTES_MAX) {
        throw new RefusedException(
            Status.TOO_LARGE,
            "an annotation has "
                + annotation.size()
                + " bytes, expected at most "
                + AnnotationDescriptor.ANNOTATION_BYTES_MAX);
      }
    }
    return wire;
  }

  /**
   * The bodies of as many requests as it takes.
   *
   * @param annotations one for each key
   * @param isWanted says of which keys
   */
  static List<byte[]> bodies(KeyBatch keys, List<ByteString> annotations, IntPredicate isWanted) {
    List<byte[]> bodies = new ArrayList<>();
    AnnotationBody body = new AnnotationBody();
    for (int i = 0; i < keys.count(); i++) {
      byte[] annotation = annotations.get(i).toByteArray();
      byte[] key = keys.keys().get(i).toByteArray();
      if (annotation.length > 0 && isWanted.test(i) && !body.add(key, annotation)) {
        bodies.add(body.take());
        var _ = body.add(key, annotation);
      }
    }
    if (!body.isEmpty()) {
      bodies.add(body.take());
    }
    return bodies;
  }
}
