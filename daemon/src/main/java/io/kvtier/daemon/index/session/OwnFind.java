package io.kvtier.daemon.index.session;

import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Records;
import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A part of this daemon asks which blocks of a namespace are here. It counts neither as a lookup
 * nor as a use of the blocks. The answer is given on the index's thread, and must neither block nor
 * fail.
 *
 * @param namespace finds the namespace, on the index's thread
 * @param keys in native memory, {@link Records#keyStride} bytes each
 * @param answer takes null if there is no such namespace
 */
public record OwnFind(
    Function<Namespaces, Namespaces.@Nullable Namespace> namespace,
    int group,
    int keyBytes,
    int count,
    MemorySegment keys,
    Consumer<@Nullable Answer> answer) {
  /**
   * The answer.
   *
   * @param high the upper half of the namespace's fingerprint
   */
  public record Answer(long high, long low, NodeCall.Found found) {}
}
