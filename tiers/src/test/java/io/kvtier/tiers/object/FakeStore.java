package io.kvtier.tiers.object;

import java.io.ByteArrayOutputStream;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedDeque;
import org.jspecify.annotations.Nullable;

/** A store in memory whose calls are answered when the test says so. */
final class FakeStore implements ObjectStore {
  /** A call that waits for its answer. */
  record Asked(
      String verb,
      String name,
      boolean ifAbsent,
      List<MemorySegment> parts,
      long timeoutNs,
      StoreCall call) {}

  final Map<String, byte[]> objects = new HashMap<>();
  final Deque<Asked> asked = new ConcurrentLinkedDeque<>();

  /** Answers at once with this; null for when the test says so. */
  @Nullable StoreResult always;

  private StoreCall ask(
      String verb, String name, boolean ifAbsent, List<MemorySegment> parts, long timeoutNs) {
    StoreCall call = new StoreCall();
    asked.add(new Asked(verb, name, ifAbsent, parts, timeoutNs, call));
    StoreResult now = always;
    if (now != null) {
      asked.removeLast().call().end(now);
    }
    return call;
  }

  /** The oldest call that was not answered. */
  Asked next() {
    return asked.removeFirst();
  }

  /** Answers the oldest call as a store does that works. */
  Asked answer() {
    Asked next = next();
    answer(next);
    return next;
  }

  void answer(Asked question) {
    question.call().end(work(question));
  }

  private StoreResult work(Asked question) {
    byte[] object = objects.get(question.name());
    if (question.verb().equals("put")) {
      return question.ifAbsent() && object != null ? new StoreResult.Present() : keep(question);
    }
    if (object == null) {
      return new StoreResult.Absent();
    }
    long at = 0;
    for (MemorySegment part : question.parts()) {
      long count = Math.min(part.byteSize(), object.length - at);
      MemorySegment.copy(MemorySegment.ofArray(object), at, part, 0, count);
      at += count;
    }
    return new StoreResult.Done(question.verb().equals("head") ? object.length : at);
  }

  private StoreResult keep(Asked put) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    for (MemorySegment part : put.parts()) {
      bytes.writeBytes(part.toArray(ValueLayout.JAVA_BYTE));
    }
    objects.put(put.name(), bytes.toByteArray());
    return new StoreResult.Done(bytes.size());
  }

  @Override
  public StoreCall put(String name, List<MemorySegment> parts, boolean ifAbsent, long timeoutNs) {
    return ask("put", name, ifAbsent, parts, timeoutNs);
  }

  @Override
  public StoreCall get(String name, long offset, List<MemorySegment> parts, long timeoutNs) {
    return ask("get", name, false, parts, timeoutNs);
  }

  @Override
  public StoreCall head(String name, long timeoutNs) {
    return ask("head", name, false, List.of(), timeoutNs);
  }

  @Override
  public StoreCall list(String prefix, String after, int max, long timeoutNs) {
    throw new UnsupportedOperationException();
  }

  @Override
  public StoreCall delete(List<String> names, long timeoutNs) {
    throw new UnsupportedOperationException();
  }

  @Override
  public String describe() {
    return "a store in memory";
  }

  @Override
  public void close() {}
}
