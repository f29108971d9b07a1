package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What every {@link ObjectStore} does. */
abstract class ObjectStoreContract {
  /** No test waits for it: it only bounds how long a defect keeps the suite. */
  static final long TIMEOUT_NS = TimeUnit.SECONDS.toNanos(30);

  final Arena arena = Arena.ofShared();
  ObjectStore store;

  abstract ObjectStore open() throws Exception;

  @BeforeEach
  void openStore() throws Exception {
    store = open();
  }

  @AfterEach
  void closeStore() {
    store.close();
    arena.close();
  }

  static StoreResult await(StoreCall call) {
    return call.result().orTimeout(60, TimeUnit.SECONDS).join();
  }

  MemorySegment bytes(long seed, int length) {
    byte[] random = new byte[length];
    new Random(seed).nextBytes(random);
    return arena.allocate(length, 8).copyFrom(MemorySegment.ofArray(random));
  }

  StoreResult put(String name, MemorySegment... parts) {
    return await(store.put(name, List.of(parts), true, TIMEOUT_NS));
  }

  StoreResult get(String name, long offset, MemorySegment... parts) {
    return await(store.get(name, offset, List.of(parts), TIMEOUT_NS));
  }

  static void assertSameBytes(MemorySegment expected, MemorySegment actual) {
    assertEquals(-1, expected.mismatch(actual));
  }

  @Test
  void put_severalParts_areReadAsOne() {
    MemorySegment whole = bytes(1, 3_000_001);
    assertEquals(
        new StoreResult.Done(3_000_001),
        put("a/b/object", whole.asSlice(0, 192), whole.asSlice(192)));
    MemorySegment slot = arena.allocate(whole.byteSize());
    assertEquals(new StoreResult.Done(3_000_001), get("a/b/object", 0, slot));
    assertSameBytes(whole, slot);
  }

  @Test
  void put_ifAbsentWherePresent_leavesTheFirst() {
    MemorySegment first = bytes(1, 1000);
    put("object", first);
    assertEquals(new StoreResult.Present(), put("object", bytes(2, 1000)));
    MemorySegment slot = arena.allocate(1000);
    get("object", 0, slot);
    assertSameBytes(first, slot);
  }

  @Test
  void put_wherePresent_replaces() {
    put("object", bytes(1, 1000));
    MemorySegment second = bytes(2, 500);
    assertEquals(
        new StoreResult.Done(500), await(store.put("object", List.of(second), false, TIMEOUT_NS)));
    MemorySegment slot = arena.allocate(1000);
    assertEquals(new StoreResult.Done(500), get("object", 0, slot));
    assertSameBytes(second, slot.asSlice(0, 500));
  }

  @Test
  void put_manyWritersOfOneName_oneIsDone() {
    List<StoreCall> calls = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      calls.add(store.put("object", List.of(bytes(7, 100_000)), true, TIMEOUT_NS));
    }
    int done = 0;
    for (StoreCall call : calls) {
      switch (await(call)) {
        case StoreResult.Done _ -> done++;
        case StoreResult.Present _, StoreResult.Throttled _ -> {}
        case StoreResult other -> throw new AssertionError("unexpected " + other);
      }
    }
    assertTrue(done >= 1);
    MemorySegment slot = arena.allocate(100_000);
    assertEquals(new StoreResult.Done(100_000), get("object", 0, slot));
    assertSameBytes(bytes(7, 100_000), slot);
  }

  @Test
  void get_range_isScatteredOverTheParts() {
    MemorySegment whole = bytes(1, 10_000);
    put("object", whole);
    MemorySegment head = arena.allocate(100);
    MemorySegment slot = arena.allocate(4096);
    assertEquals(new StoreResult.Done(4196), get("object", 777, head, slot));
    assertSameBytes(whole.asSlice(777, 100), head);
    assertSameBytes(whole.asSlice(877, 4096), slot);
  }

  @Test
  void get_beyondTheEnd_saysHowManyBytesThereWere() {
    MemorySegment whole = bytes(1, 1000);
    put("object", whole);
    MemorySegment slot = arena.allocate(4096);
    assertEquals(new StoreResult.Done(100), get("object", 900, slot));
    assertSameBytes(whole.asSlice(900), slot.asSlice(0, 100));
    assertEquals(0, slot.get(ValueLayout.JAVA_BYTE, 100));
    assertEquals(new StoreResult.Done(0), get("object", 1000, slot));
  }

  @Test
  void getAndHead_noObject_areAbsent() {
    assertEquals(new StoreResult.Absent(), get("a/nothing", 0, arena.allocate(10)));
    assertEquals(new StoreResult.Absent(), await(store.head("a/nothing", TIMEOUT_NS)));
  }

  @Test
  void head_object_saysItsLength() {
    put("object", bytes(1, 12_345));
    assertEquals(new StoreResult.Done(12_345), await(store.head("object", TIMEOUT_NS)));
  }

  @Test
  void list_pageByPage_hasAllNamesInOrder() {
    List<String> names = new ArrayList<>();
    for (String folder : new String[] {"ns/00/", "ns/0a/", "ns/b-/", "ns0/00/"}) {
      for (int i = 0; i < 3; i++) {
        names.add(folder + "k" + i);
        names.add(folder + "k" + i + ".g1");
      }
    }
    for (String name : names) {
      put(name, bytes(1, 10));
    }
    names.removeIf(name -> !name.startsWith("ns/"));
    names.sort(null);
    List<String> listed = new ArrayList<>();
    boolean more = true;
    while (more) {
      String after = listed.isEmpty() ? "" : listed.getLast();
      StoreResult.Page page =
          assertInstanceOf(StoreResult.Page.class, await(store.list("ns/", after, 4, TIMEOUT_NS)));
      assertTrue(page.objects().size() <= 4);
      for (StoredObject object : page.objects()) {
        assertEquals(10, object.bytes());
        assertTrue(object.modifiedMs() > 1_600_000_000_000L);
        listed.add(object.name());
      }
      more = page.more();
    }
    assertEquals(names, listed);
  }

  @Test
  void list_partOfAName_isAPrefixToo() {
    put("ns/00/k10", bytes(1, 1));
    put("ns/00/k2", bytes(1, 1));
    StoreResult.Page page =
        assertInstanceOf(StoreResult.Page.class, await(store.list("ns/00/k1", "", 10, TIMEOUT_NS)));
    assertEquals(List.of("ns/00/k10"), page.objects().stream().map(StoredObject::name).toList());
  }

  @Test
  void list_nothingThere_isAnEmptyPage() {
    assertEquals(
        new StoreResult.Page(List.of(), false), await(store.list("nothing/", "", 10, TIMEOUT_NS)));
  }

  @Test
  void delete_presentAndAbsent_bothAreGone() {
    put("a/1", bytes(1, 10));
    put("a/2", bytes(1, 10));
    assertEquals(
        new StoreResult.Done(3), await(store.delete(List.of("a/1", "a/2", "a/3"), TIMEOUT_NS)));
    assertEquals(new StoreResult.Absent(), await(store.head("a/1", TIMEOUT_NS)));
    assertEquals(
        new StoreResult.Page(List.of(), false), await(store.list("a/", "", 10, TIMEOUT_NS)));
  }

  @Test
  void anyCall_withoutTime_expires() {
    MemorySegment slot = arena.allocate(10);
    assertEquals(new StoreResult.Expired(), await(store.put("x", List.of(slot), true, 0)));
    assertEquals(new StoreResult.Expired(), await(store.get("x", 0, List.of(slot), -1)));
    assertEquals(new StoreResult.Expired(), await(store.head("x", 0)));
  }

  @Test
  void cancel_atOnce_neitherWritesNorReadsAfterwards() {
    MemorySegment whole = bytes(1, 2 << 20);
    put("object", whole);
    for (int i = 0; i < 50; i++) {
      MemorySegment slot = arena.allocate(2 << 20);
      StoreCall call = store.get("object", 0, List.of(slot), TIMEOUT_NS);
      if (i % 2 == 1) {
        Thread.onSpinWait();
      } else {
        java.util.concurrent.locks.LockSupport.parkNanos(i * 100_000L);
      }
      call.cancel();
      if (await(call) instanceof StoreResult.Cancelled) {
        slot.fill((byte) 0x55);
        for (int look = 0; look < 3; look++) {
          java.util.concurrent.locks.LockSupport.parkNanos(200_000);
          for (long at = 0; at < slot.byteSize(); at += 8) {
            assertEquals(0x5555_5555_5555_5555L, slot.get(ValueLayout.JAVA_LONG, at));
          }
        }
      }
    }
    MemorySegment slot = arena.allocate(2 << 20);
    assertEquals(new StoreResult.Done(2 << 20), get("object", 0, slot));
    assertSameBytes(whole, slot);
  }

  @Test
  void manyCalls_moreThanTheStoreHasHandsFor_allEndWell() {
    List<StoreCall> puts = new ArrayList<>();
    for (int i = 0; i < 200; i++) {
      puts.add(store.put("many/" + i, List.of(bytes(i, 10_000)), true, TIMEOUT_NS));
    }
    for (StoreCall call : puts) {
      assertEquals(new StoreResult.Done(10_000), await(call));
    }
    for (int i = 0; i < 200; i += 17) {
      MemorySegment slot = arena.allocate(10_000);
      assertEquals(new StoreResult.Done(10_000), get("many/" + i, 0, slot));
      assertSameBytes(bytes(i, 10_000), slot);
    }
  }

  @Test
  void names_thatCouldLeaveTheStore_areRefused() {
    for (String name :
        new String[] {"", "/a", "a/", "a//b", "../a", "a/../b", ".incoming/x", "a+"}) {
      assertThrows(IllegalArgumentException.class, () -> store.head(name, TIMEOUT_NS), name);
    }
  }

  @Test
  void close_callsUnderWay_end() throws Exception {
    List<StoreCall> calls = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      calls.add(store.put("c/" + i, List.of(bytes(1, 1 << 20)), true, TIMEOUT_NS));
    }
    store.close();
    for (StoreCall call : calls) {
      await(call);
    }
    assertInstanceOf(StoreResult.Unavailable.class, await(store.head("c/1", TIMEOUT_NS)));
    store = open();
  }
}
