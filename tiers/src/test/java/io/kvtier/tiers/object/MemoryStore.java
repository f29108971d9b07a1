package io.kvtier.tiers.object;

import java.io.ByteArrayOutputStream;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;

/** A store in memory that answers at once. Its objects are as old as time; see ClockedStore. */
public final class MemoryStore implements ObjectStore {
  private final TreeMap<String, byte[]> objects = new TreeMap<>();

  @Override
  public synchronized StoreCall put(
      String name, List<MemorySegment> parts, boolean ifAbsent, long timeoutNs) {
    ObjectNames.check(name);
    if (ifAbsent && objects.containsKey(name)) {
      return StoreCall.of(new StoreResult.Present());
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    for (MemorySegment part : parts) {
      bytes.writeBytes(part.toArray(ValueLayout.JAVA_BYTE));
    }
    objects.put(name, bytes.toByteArray());
    return StoreCall.of(new StoreResult.Done(bytes.size()));
  }

  @Override
  public synchronized StoreCall get(
      String name, long offset, List<MemorySegment> parts, long timeoutNs) {
    byte[] object = objects.get(name);
    if (object == null) {
      return StoreCall.of(new StoreResult.Absent());
    }
    long at = offset;
    for (MemorySegment part : parts) {
      long count = Math.min(part.byteSize(), object.length - at);
      MemorySegment.copy(MemorySegment.ofArray(object), at, part, 0, count);
      at += count;
    }
    return StoreCall.of(new StoreResult.Done(at - offset));
  }

  @Override
  public synchronized StoreCall head(String name, long timeoutNs) {
    byte[] object = objects.get(name);
    return StoreCall.of(
        object == null ? new StoreResult.Absent() : new StoreResult.Done(object.length));
  }

  @Override
  public synchronized StoreCall list(String prefix, String after, int max, long timeoutNs) {
    List<StoredObject> found = new ArrayList<>();
    for (var entry : objects.tailMap(after, false).entrySet()) {
      if (entry.getKey().startsWith(prefix)) {
        if (found.size() == max) {
          return StoreCall.of(new StoreResult.Page(found, true));
        }
        found.add(new StoredObject(entry.getKey(), entry.getValue().length, 0));
      }
    }
    return StoreCall.of(new StoreResult.Page(found, false));
  }

  @Override
  public synchronized StoreCall delete(List<String> names, long timeoutNs) {
    names.forEach(objects::remove);
    return StoreCall.of(new StoreResult.Done(names.size()));
  }

  @Override
  public String describe() {
    return "a store in memory";
  }

  @Override
  public void close() {}
}
