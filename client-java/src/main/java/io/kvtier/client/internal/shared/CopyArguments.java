package io.kvtier.client.internal.shared;

import io.kvtier.client.Keys;
import io.kvtier.client.Options;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** The arguments of gets and puts. */
public final class CopyArguments {
  private CopyArguments() {}

  /** The options of a part of a batch that begins with a key. */
  public static Options at(Options options, Keys keys, int from) {
    return from == 0
        ? options
        : options.withPosition(options.depth() + from, keys.slice(from - 1, from));
  }

  /** Checks the arguments of a get. */
  public static void checkDestinations(
      NamespaceProperties namespace, Keys keys, List<MemorySegment> destinations) {
    Objects.requireNonNull(keys, "keys is null");
    Objects.requireNonNull(destinations, "the list of destinations is null");
    if (destinations.size() != keys.count()) {
      throw new IllegalArgumentException(
          keys.count() + " keys, but " + destinations.size() + " destinations");
    }
    for (MemorySegment destination : destinations) {
      Objects.requireNonNull(destination, "a destination is null");
      if (destination.byteSize() < namespace.blockBytes()) {
        throw new IllegalArgumentException(
            "a destination has "
                + destination.byteSize()
                + " bytes, expected at least "
                + namespace.blockBytes()
                + ": a block of namespace '"
                + namespace.name()
                + "'");
      }
      if (destination.isReadOnly()) {
        throw new IllegalArgumentException(
            "a destination is read-only, expected writable memory: " + destination);
      }
      if (!destination.isNative() && !(destination.heapBase().orElse(null) instanceof byte[])) {
        throw new IllegalArgumentException(
            "a destination is native memory or a byte array, not " + destination);
      }
    }
  }

  /** Checks the arguments of a put. */
  public static void checkSources(
      NamespaceProperties namespace,
      Keys keys,
      List<MemorySegment> sources,
      @Nullable List<byte[]> annotations) {
    Objects.requireNonNull(keys, "keys is null");
    Objects.requireNonNull(sources, "the list of sources is null");
    if (annotations != null) {
      AnnotationBodies.check(keys, annotations);
    }
    if (sources.size() != keys.count()) {
      throw new IllegalArgumentException(
          keys.count() + " keys, but " + sources.size() + " sources");
    }
    for (MemorySegment source : sources) {
      Objects.requireNonNull(source, "a source is null");
      if (source.byteSize() != namespace.blockBytes()) {
        throw new IllegalArgumentException(
            "a source has "
                + source.byteSize()
                + " bytes, expected "
                + namespace.blockBytes()
                + ": a block of namespace '"
                + namespace.name()
                + "'");
      }
    }
  }
}
