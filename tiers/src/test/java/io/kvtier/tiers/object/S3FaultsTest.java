package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What comes of a call when the network or the server does wrong: the right outcome, in time. */
final class S3FaultsTest {
  private static final int BYTES = 2 << 20;
  private static final long LONG_NS = TimeUnit.SECONDS.toNanos(60);
  private static final long SHORT_NS = TimeUnit.MILLISECONDS.toNanos(400);
  private static S3Server server;

  private final Arena arena = Arena.ofShared();
  private final MemorySegment block = arena.allocate(BYTES, 8);
  private final MemorySegment slot = arena.allocate(BYTES, 8);
  private FaultProxy proxy;
  private S3ObjectStore store;

  @BeforeAll
  static void start() {
    server = S3Server.start();
  }

  @AfterAll
  static void stop() throws IOException {
    server.close();
  }

  @BeforeEach
  void open() throws IOException {
    byte[] random = new byte[BYTES];
    new Random(1).nextBytes(random);
    block.copyFrom(MemorySegment.ofArray(random));
    proxy = new FaultProxy(server.port());
    store =
        new S3ObjectStore(
            S3Options.of(S3Server.endpoint(proxy.port()), "us-east-1", S3Server.BUCKET),
            S3Server.credentials());
    assertInstanceOf(StoreResult.Done.class, put(LONG_NS));
  }

  @AfterEach
  void close() throws IOException {
    store.close();
    proxy.close();
    arena.close();
  }

  private StoreResult put(long timeoutNs) {
    return ObjectStoreContract.await(store.put("block", List.of(block), false, timeoutNs));
  }

  private StoreResult get(long timeoutNs) {
    return ObjectStoreContract.await(store.get("block", 0, List.of(slot), timeoutNs));
  }

  private void assertHealsByItself() {
    proxy.set(FaultProxy.NONE);
    StoreResult result = get(LONG_NS);
    // A connection that was damaged before may be found out by the call that uses it next.
    for (int i = 0; i < 64 && result instanceof StoreResult.Unavailable; i++) {
      result = get(LONG_NS);
    }
    assertEquals(new StoreResult.Done(BYTES), result);
    ObjectStoreContract.assertSameBytes(block, slot);
  }

  @ParameterizedTest
  @CsvSource({"0", "10", "1000", "100000", "2000000"})
  void get_connectionReset_isUnavailable(long afterBytes) {
    proxy.set(new FaultProxy.Fault.Reset(afterBytes));
    assertInstanceOf(StoreResult.Unavailable.class, get(LONG_NS));
    assertHealsByItself();
  }

  @ParameterizedTest
  @CsvSource({"0", "10", "1000", "2000000"})
  void get_bodyTruncated_isUnavailable(long afterBytes) {
    proxy.set(new FaultProxy.Fault.Truncate(afterBytes));
    assertInstanceOf(StoreResult.Unavailable.class, get(LONG_NS));
    assertHealsByItself();
  }

  @ParameterizedTest
  @CsvSource({"0", "10", "100000"})
  void get_stalled_expires(long afterBytes) {
    proxy.set(new FaultProxy.Fault.Stall(afterBytes));
    assertEquals(new StoreResult.Expired(), get(SHORT_NS));
    assertHealsByItself();
  }

  @Test
  void get_slowDrip_expires() {
    proxy.set(new FaultProxy.Fault.Drip(100, 10));
    assertEquals(new StoreResult.Expired(), get(SHORT_NS));
    assertHealsByItself();
  }

  @Test
  void get_delayedWithinTheDeadline_isDone() {
    proxy.set(new FaultProxy.Fault.Delay(50));
    assertEquals(new StoreResult.Done(BYTES), get(LONG_NS));
    ObjectStoreContract.assertSameBytes(block, slot);
  }

  /** The store can't know; the block's own checksum does. */
  @Test
  void get_corruptedBody_isAnotherBlock() {
    proxy.set(new FaultProxy.Fault.Corrupt(1_000_000));
    if (get(LONG_NS) instanceof StoreResult.Done) {
      assertNotEquals(-1, block.mismatch(slot));
    }
    assertHealsByItself();
  }

  @ParameterizedTest
  @CsvSource({"400", "401", "403"})
  void anyCall_refused_isDenied(int status) {
    proxy.set(new FaultProxy.Fault.Answer(status, ""));
    assertInstanceOf(StoreResult.Denied.class, get(LONG_NS));
    assertInstanceOf(StoreResult.Denied.class, put(LONG_NS));
    assertHealsByItself();
  }

  @ParameterizedTest
  @CsvSource({"500", "502", "504"})
  void anyCall_serverFails_isUnavailable(int status) {
    proxy.set(new FaultProxy.Fault.Answer(status, ""));
    assertInstanceOf(StoreResult.Unavailable.class, get(LONG_NS));
    assertInstanceOf(StoreResult.Unavailable.class, put(LONG_NS));
    assertHealsByItself();
  }

  @ParameterizedTest
  @CsvSource({"429", "503"})
  void anyCall_throttled_saysWhenToComeBack(int status) {
    proxy.set(new FaultProxy.Fault.Answer(status, "Retry-After: 7\r\n"));
    assertEquals(new StoreResult.Throttled(TimeUnit.SECONDS.toNanos(7)), get(LONG_NS));
    assertEquals(new StoreResult.Throttled(TimeUnit.SECONDS.toNanos(7)), put(LONG_NS));
    assertHealsByItself();
  }

  @Test
  void get_answered404_isAbsent() {
    proxy.set(new FaultProxy.Fault.Answer(404, ""));
    assertEquals(new StoreResult.Absent(), get(LONG_NS));
    assertHealsByItself();
  }

  @Test
  void putIfAbsent_answered412_isPresent() {
    proxy.set(new FaultProxy.Fault.Answer(412, ""));
    assertEquals(
        new StoreResult.Present(),
        ObjectStoreContract.await(store.put("block", List.of(block), true, LONG_NS)));
    assertHealsByItself();
  }

  @Test
  void putWithoutACondition_answered412_isUnavailable() {
    proxy.set(new FaultProxy.Fault.Answer(412, ""));
    assertInstanceOf(StoreResult.Unavailable.class, put(LONG_NS));
    assertHealsByItself();
  }

  @Test
  void put_answerNeverComes_expires() {
    proxy.set(new FaultProxy.Fault.Stall(0));
    assertEquals(new StoreResult.Expired(), put(SHORT_NS));
    assertHealsByItself();
  }

  /** Far more calls are given up than there are connections: none of them may be lost. */
  @Test
  void manyCalls_stalled_leaveTheConnectionsUsable() {
    proxy.set(new FaultProxy.Fault.Stall(50_000));
    List<StoreCall> calls = new ArrayList<>();
    for (int i = 0; i < 200; i++) {
      MemorySegment own = arena.allocate(BYTES, 8);
      calls.add(store.get("block", 0, List.of(own), SHORT_NS));
    }
    for (StoreCall call : calls) {
      assertEquals(new StoreResult.Expired(), ObjectStoreContract.await(call));
    }
    assertHealsByItself();
  }
}
