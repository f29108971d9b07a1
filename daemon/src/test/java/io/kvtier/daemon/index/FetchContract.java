package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.session.ServedBlock;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.Messages;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.TracedRequest;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A daemon sends the blocks that another node asks for, over every transport. */
abstract class FetchContract extends ServedContract {
  private static final int BLOCK = IndexHarness.SLOT_BYTES;

  /** The most leases of a node, and blocks that wait for one. */
  private static final int LEASES_MAX = 256;

  final void fetch(long id, int blockBytes, long... keys) {
    fetchSaid(id, blockBytes, keys.length, keys);
  }

  /** Asks for blocks, and says how many there are. */
  private void fetchSaid(long id, int blockBytes, int count, long... keys) {
    long[] name = fingerprint(LayerWriter.text());
    ByteBuffer body = ByteBuffer.allocate(32 + 8 * keys.length).order(ByteOrder.LITTLE_ENDIAN);
    body.putLong(name[0]).putLong(name[1]).putInt(0).putInt(8).putInt(count).putInt(blockBytes);
    for (long key : keys) {
      body.putLong(key);
    }
    sender.open().send(frame(FrameType.FETCH, id).with(body.flip()));
  }

  final void release(Status status, long... leases) {
    ByteBuffer body = ByteBuffer.allocate(8 * leases.length).order(ByteOrder.LITTLE_ENDIAN);
    for (long lease : leases) {
      body.putLong(lease);
    }
    Frame release = Frame.of(FrameType.RELEASE, status, OURS, THEIRS, 1000);
    sender.open().send(release.with(body.flip()));
  }

  /** Takes a block, and compares its bytes; returns its lease. */
  final long takeBlock(long id, long key) {
    Frame block = answer(id);
    assertEquals(FrameType.BLOCK, block.type());
    assertEquals(Checksums.of(LayerWriter.block(key)), block.checksum());
    await(() -> !sender.payloads.isEmpty());
    assertArrayEquals(
        LayerWriter.block(key).toArray(ValueLayout.JAVA_BYTE), sender.payloads.removeFirst());
    return block.lease();
  }

  final void none(long id, Status status) {
    Frame none = answer(id);
    assertEquals(FrameType.NONE, none.type());
    assertEquals(status, none.status());
  }

  final void awaitLeases(long leases) {
    await(() -> count(Counter.GAUGE_LEASES) == leases);
  }

  final LayerWriter write(long... keys) throws IOException, ProtocolViolation {
    LayerWriter engine = new LayerWriter(index);
    for (long key : keys) {
      for (int layer = 0; layer < 4; layer++) {
        engine.write(key, layer);
      }
    }
    return engine;
  }

  /** Changes a byte of a block in its slot. */
  final void damage(LayerWriter engine, long key) throws ProtocolViolation {
    engine.client.sendKeys(Verb.ACQUIRE, key, 1);
    IndexHarness.Answer answer = engine.client.await();
    assertEquals(Status.OK, answer.first());
    long at = answer.places().getFirst();
    byte before = index.slabs().get(ValueLayout.JAVA_BYTE, at);
    index.slabs().set(ValueLayout.JAVA_BYTE, at, (byte) ~before);
    engine.client.sendIds(Verb.RELEASE, 0, 1, answer.ids().getFirst());
    assertEquals(Status.OK, engine.client.await().first());
  }

  @Test
  void blocksOfOneFetch_areAnsweredEachOnItsOwn_andReleasedTogether()
      throws IOException, ProtocolViolation {
    greet();
    write(77, 79);
    fetch(3, BLOCK, 77, 78, 79);
    long first = takeBlock(3, 77);
    none(4, Status.MISS);
    long second = takeBlock(5, 79);
    assertEquals(2, count(Counter.GAUGE_LEASES));
    assertEquals(2, count(Counter.NODE_SERVED));
    release(Status.OK, first, second, second, 99);
    awaitLeases(0);
    assertEquals("", sender.closed);
  }

  private void trace(long id) {
    ByteBuffer ids = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
    ids.putLong(1).putLong(2).putLong(3).flip();
    sender.open().send(frame(FrameType.TRACE, id).with(ids));
  }

  @Test
  void tracedRequest_isToldOfEachBlock_andTheNextOneIsNot() throws IOException, ProtocolViolation {
    greet();
    write(77);
    trace(3);
    fetch(3, BLOCK, 77, 78);
    fetch(5, BLOCK, 77);
    long[] leases = {takeBlock(3, 77), 0};
    none(4, Status.MISS);
    leases[1] = takeBlock(5, 77);
    await(() -> served.size() == 2);
    // A frame without a block can be sent sooner.
    served.sort(Comparator.comparing(ServedBlock::status));
    assertEquals(
        List.of(Status.OK, Status.MISS), served.stream().map(ServedBlock::status).toList());
    assertEquals(BLOCK, served.getFirst().bytes());
    for (ServedBlock one : served) {
      assertEquals(new TracedRequest(1, 2, 3), one.request());
      assertTrue(one.startNs() <= one.readyNs() && one.readyNs() <= one.endNs(), one::toString);
    }
    release(Status.OK, leases);
    awaitLeases(0);
    assertEquals(2, served.size());
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 16, 24, 32})
  void traceOfAnotherLengthOrOfZeros_endsTheConnection(int bytes) {
    greet();
    sender.open().send(frame(FrameType.TRACE, 3).with(ByteBuffer.allocate(bytes)));
    await(() -> !sender.closed.isEmpty());
  }

  @Test
  void blocksOfAnotherLength_areMisses() throws IOException, ProtocolViolation {
    greet();
    write(77);
    fetch(3, BLOCK / 2, 77, 78);
    none(3, Status.MISS);
    none(4, Status.MISS);
    assertEquals(0, count(Counter.GAUGE_LEASES));
  }

  @Test
  void damagedBlock_isReleasedOnItsOwn_checked_andDropped() throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = write(77, 78);
    fetch(3, BLOCK, 77, 78);
    long damaged = takeBlock(3, 77);
    long good = takeBlock(4, 78);
    damage(engine, 77);
    release(Status.CORRUPT, damaged);
    awaitLeases(1);
    release(Status.OK, good);
    awaitLeases(0);
    fetch(5, BLOCK, 77, 78);
    none(5, Status.MISS);
    release(Status.OK, takeBlock(6, 78));
    awaitLeases(0);
  }

  @Test
  void fetchOfMoreBlocksThanTheIndexLeases_isBusyForTheOthers()
      throws IOException, ProtocolViolation {
    greet();
    write(77);
    long[] keys = new long[Messages.FETCHED_MAX];
    Arrays.fill(keys, 77);
    fetch(100, BLOCK, keys);
    fetch(100 + keys.length, BLOCK, keys);
    long[] leases = new long[HOLDS_MAX];
    for (int i = 0; i < HOLDS_MAX; i++) {
      leases[i] = takeBlock(100 + i, 77);
    }
    for (int i = HOLDS_MAX; i < 2 * keys.length; i++) {
      none(100 + i, Status.BUSY);
    }
    release(Status.OK, leases[0]);
    awaitLeases(HOLDS_MAX - 1);
    fetch(3, BLOCK, 77);
    leases[0] = takeBlock(3, 77);
    release(Status.OK, Arrays.copyOf(leases, keys.length));
    release(Status.OK, Arrays.copyOfRange(leases, keys.length, HOLDS_MAX));
    awaitLeases(0);
  }

  @Test
  void fetchOfMoreBlocksThanCanBeLeased_isLeasedInPart_andBusyForTheOthers() {
    greet();
    isIndexIdle = true;
    int at = 60;
    long[] keys = LongStream.range(0, at).toArray();
    int asked = LEASES_MAX / at + 2;
    for (int i = 0; i < asked; i++) {
      fetch(100 + (long) i * at, BLOCK, keys);
    }
    for (int i = LEASES_MAX; i < asked * at; i++) {
      none(100 + i, Status.BUSY);
    }
    isIndexIdle = false;
    for (int i = 0; i < LEASES_MAX; i++) {
      none(100 + i, Status.MISS);
    }
    fetch(3, BLOCK, 77);
    none(3, Status.MISS);
  }

  @Test
  void blocksOfAFetchThatFitsInPart_areTheFirstOnes() throws IOException, ProtocolViolation {
    greet();
    write(77, 78);
    isIndexIdle = true;
    long[] missing = LongStream.range(1000, 1000 + Messages.FETCHED_MAX).toArray();
    for (int i = 0; i < LEASES_MAX / missing.length - 1; i++) {
      fetch(100 + (long) i * missing.length, BLOCK, missing);
    }
    fetch(500, BLOCK, Arrays.copyOf(missing, missing.length - 1));
    trace(700);
    fetch(700, BLOCK, 77, 78);
    none(701, Status.BUSY);
    isIndexIdle = false;
    release(Status.OK, takeBlock(700, 77));
    awaitLeases(0);
    await(() -> served.size() == 2);
    assertEquals(
        List.of(Status.BUSY, Status.OK), served.stream().map(ServedBlock::status).toList());
  }

  @Test
  void leasesOfOneFetch_endWithTheConnection() throws IOException, ProtocolViolation {
    greet();
    write(77, 78);
    fetch(3, BLOCK, 77, 78);
    long ignored = takeBlock(3, 77) + takeBlock(4, 78);
    assertTrue(ignored != 0);
    sender.open().close("over");
    awaitLeases(0);
  }

  @Test
  void leasesOfABatch_endWhenTheConnectionBreaksAfterItsFirstBlock()
      throws IOException, ProtocolViolation {
    greet();
    write(77);
    long[] keys = new long[Messages.FETCHED_MAX];
    Arrays.fill(keys, 77);
    fetch(100, BLOCK, keys);
    fetch(100 + keys.length, BLOCK, keys);
    assertEquals(FrameType.BLOCK, answer(100).type());
    sender.open().close("over");
    awaitLeases(0);
  }

  @ParameterizedTest
  @CsvSource({"0, 0, 4096", "65, 65, 4096", "2, 1, 4096", "-1, 1, 4096", "1, 1, 0", "1, 1, -4096"})
  void fetchOfANumberOrLengthOutOfRange_endsTheConnection(int said, int keys, int blockBytes) {
    greet();
    fetchSaid(3, blockBytes, said, new long[keys]);
    await(() -> !sender.closed.isEmpty());
    assertEquals(0, count(Counter.GAUGE_LEASES));
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 7, 12, 8 * (Messages.FETCHED_MAX + 1)})
  void releaseOfANumberOutOfRange_endsTheConnection(int bytes) {
    greet();
    sender.open().send(frame(FrameType.RELEASE, 3).with(ByteBuffer.allocate(bytes)));
    await(() -> !sender.closed.isEmpty());
  }
}
