package io.kvtier.client.internal.shared;

import io.kvtier.client.Keys;
import io.kvtier.protocol.AnnotationBody;
import io.kvtier.protocol.AnnotationDescriptor;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntPredicate;

/** The bodies of ANNOTATE requests. */
public final class AnnotationBodies {
  private AnnotationBodies() {}

  /**
   * Packs annotations in as many bodies as it takes.
   *
   * @param annotations one for each key; an empty one is none
   * @param isWanted says of which keys
   */
  public static List<byte[]> of(Keys keys, List<byte[]> annotations, IntPredicate isWanted) {
    List<byte[]> bodies = new ArrayList<>();
    AnnotationBody body = new AnnotationBody();
    for (int i = 0; i < keys.count(); i++) {
      byte[] annotation = annotations.get(i);
      if (annotation.length > 0 && isWanted.test(i) && !body.add(keys.get(i), annotation)) {
        bodies.add(body.take());
        var _ = body.add(keys.get(i), annotation);
      }
    }
    if (!body.isEmpty()) {
      bodies.add(body.take());
    }
    return bodies;
  }

  /** Refuses annotations that a request cannot carry. */
  public static void check(Keys keys, List<byte[]> annotations) {
    if (annotations.size() != keys.count()) {
      throw new IllegalArgumentException(
          keys.count() + " keys, but " + annotations.size() + " annotations");
    }
    for (byte[] annotation : annotations) {
      if (annotation.length > AnnotationDescriptor.ANNOTATION_BYTES_MAX) {
        throw new IllegalArgumentException(
            "an annotation has at most "
                + AnnotationDescriptor.ANNOTATION_BYTES_MAX
                + " bytes, not "
                + annotation.length);
      }
    }
  }
}
