package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.node.IndexSessions;
import io.kvtier.layout.encoding.EncodingKind;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** Blocks of which the GPUs of several ranks encode their parts, and ranks of any number decode. */
@ParameterizedClass
@EnumSource(EncodingKind.class)
final class EncodedRanksTest extends EncodedRanks {
  EncodedRanksTest(EncodingKind kind) {
    super(kind);
  }

  @Test
  void blockOfAnyRanks_isEncodedAsAWholeOne_andIsReadByAnyRanks()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      List<List<Rank>> engines = engines(harness);
      int puts = 0;
      for (List<Rank> writers : engines) {
        byte[] block = values();
        for (Rank rank : writers) {
          rank.write(2, block);
          assertNotEquals(Status.OK, rank.client.ask(Verb.LOOKUP, 7), "not all have come");
          assertEquals(Status.OK, rank.put(7, 2));
        }
        workUntilIdle(harness);
        assertTrue(harness.find(encoded(block)) >= 0, "it has what one encoder makes");
        assertEquals(++puts, count(harness, Counter.PUT_ENCODED));
        assertEquals(0, count(harness, Counter.PUT_RAW));
        assertEquals(1, slotsInUse(harness, writers.getFirst()));
        for (List<Rank> readers : engines) {
          assertArrayEquals(block, read(readers, 7, 1));
        }
        clear(writers.getFirst());
      }
    }
  }

  @Test
  void partThatDoesNotFit_makesTheBlockRaw_whicheverPartItIs()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      List<List<Rank>> engines = engines(harness);
      int puts = 0;
      for (List<Rank> writers : engines) {
        for (int flawed = 0; flawed < HEADS; flawed++) {
          byte[] block = spoil(values(), random.nextInt(LAYERS), flawed % PLANES, flawed);
          for (Rank rank : writers) {
            rank.write(2, block);
            assertEquals(Status.OK, rank.put(7, 2));
          }
          workUntilIdle(harness);
          assertTrue(harness.find(block) >= 0, "its slot has the raw block");
          assertEquals(0, count(harness, Counter.PUT_ENCODED));
          assertEquals(++puts, count(harness, Counter.PUT_RAW));
          assertEquals(1, slotsInUse(harness, writers.getFirst()), "the encoded slot is free");
          for (List<Rank> readers : engines) {
            assertArrayEquals(block, read(readers, 7, 1));
          }
          clear(writers.getFirst());
        }
      }
    }
  }

  /** Parts are under way when one of them is found not to fit, or two, or all. */
  @Test
  void partsOnTheirWay_whenOthersDoNotFit_areInTheRawBlock() throws IOException, ProtocolViolation {
    FileGpu gpu = gpu();
    try (IndexHarness harness = harness(3, gpu)) {
      List<Rank> writers = engine(harness, 1, HEADS);
      List<Rank> readers = engine(harness, 1, 1);
      for (int flawed = 1; flawed < 1 << HEADS; flawed++) {
        byte[] block = values();
        for (int rank = 0; rank < HEADS; rank++) {
          if ((flawed >>> rank & 1) != 0) {
            spoil(block, random.nextInt(LAYERS), random.nextInt(PLANES), rank);
          }
        }
        gpu.hold();
        for (Rank rank : writers) {
          rank.write(2, block);
          rank.offload(7, 2);
        }
        work(harness, 20);
        gpu.letGo();
        for (Rank rank : writers) {
          assertEquals(Status.OK, rank.client.await().first());
        }
        workUntilIdle(harness);
        assertEquals(flawed, count(harness, Counter.PUT_RAW));
        assertEquals(1, slotsInUse(harness, writers.getFirst()));
        assertArrayEquals(block, read(readers, 7, 1), "flawed " + flawed);
        clear(writers.getFirst());
      }
    }
  }

  @Test
  void layersThatAreSavedOneByOne_areEncoded_andRawIfOneDoesNotFit()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      List<Rank> writers = engine(harness, 1, 2);
      List<Rank> readers = engine(harness, 2, 4);
      for (int flawed = -1; flawed < LAYERS; flawed++) {
        byte[] block = values();
        if (flawed >= 0) {
          spoil(block, flawed, 0, flawed);
        }
        writers.forEach(rank -> rank.write(2, block));
        for (int layer = 0; layer < LAYERS; layer++) {
          for (Rank rank : writers) {
            assertEquals(Status.OK, rank.put(7, 2, layer, layer + 1));
          }
        }
        workUntilIdle(harness);
        assertEquals(1, count(harness, Counter.PUT_ENCODED));
        assertEquals(flawed + 1, count(harness, Counter.PUT_RAW));
        assertEquals(1, slotsInUse(harness, writers.getFirst()));
        assertArrayEquals(block, read(readers, 7, 1));
        // Two layers of the last rank, one by one.
        byte[] got = new byte[BLOCK_BYTES];
        Rank last = readers.getLast();
        assertEquals(Status.OK, last.get(7, 3, 0, 1));
        assertEquals(Status.OK, last.get(7, 3, 1, 2));
        last.read(3, got);
        byte[] expected = new byte[BLOCK_BYTES];
        last.write(0, block);
        last.read(0, expected);
        assertArrayEquals(expected, got);
        clear(last);
      }
    }
  }

  @Test
  void partsOfOneRequest_areRawWhereTheirBlocksAreRaw_andEncodedWhereTheyAreNot()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      List<Rank> writers = engine(harness, 1, 2);
      byte[][] blocks = {values(), spoil(values(), 1, 1, 0), values(), spoil(values(), 1, 1, 3)};
      for (Rank rank : writers) {
        for (int i = 0; i < blocks.length; i++) {
          rank.write(i, blocks[i]);
        }
        rank.client.sendBlocks(
            Verb.OFFLOAD, rank.region, new long[] {1, 2, 3, 4}, new int[] {0, 1, 2, 3});
        IndexHarness.Answer answer = rank.client.await();
        assertEquals(List.of(Status.OK, Status.OK), List.of(answer.first(), answer.last()));
        workUntilIdle(harness);
      }
      assertEquals(2, count(harness, Counter.PUT_ENCODED));
      assertEquals(2, count(harness, Counter.PUT_RAW));
      List<Rank> readers = engine(harness, 1, 1);
      for (int i = 0; i < blocks.length; i++) {
        assertArrayEquals(blocks[i], read(readers, i + 1, 0), "block " + i);
      }
    }
  }

  /** The raw slot does not have the parts that came encoded. */
  @Test
  void nodeThatExpectsABlock_isToldOfIt_whenItsEncodedPartsAreDecoded()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      IndexSessions sessions =
          new IndexSessions(harness.agent(), () -> {}, 1, _ -> harness.slabs());
      Session node = sessions.open("node", new Grant("node", Role.READ, 0), () -> {});
      List<Rank> writers = engine(harness, 4, 1);
      byte[] block = spoil(values(), 1, 0, 0);
      List<NodeCall.Followed> told = new ArrayList<>();
      MemorySegment keys = arena.allocate(Records.keyStride(8), 8);
      keys.set(ValueLayout.JAVA_LONG, 0, 7);
      Namespaces.Fingerprint name =
          Namespaces.fingerprintOf(
              BLOCK_BYTES + "\n" + namespace.lines().sorted().collect(Collectors.joining("\n")));
      assertTrue(
          sessions.call(
              node,
              new NodeCall.Follow(
                  new NodeCall.Blocks(name.high(), name.low(), 0, 8, 1, keys),
                  BLOCK_BYTES,
                  1_000_000_000L,
                  told::add)));
      for (Rank rank : writers) {
        assertEquals(List.of(), told);
        rank.write(2, block);
        assertEquals(Status.OK, rank.put(7, 2));
      }
      workUntilIdle(harness);
      assertEquals(1, told.size());
      assertInstanceOf(NodeCall.Followed.Whole.class, told.getFirst());
    }
  }

  /** Engines of any ranks put and get blocks of both forms: nobody gets another block's bytes. */
  @Test
  void anyOrder_ofEnginesAndBlocks_neverGivesWrongBytes() throws IOException, ProtocolViolation {
    int keys = 10;
    FileGpu gpu = gpu();
    try (IndexHarness harness = harness(3, gpu)) {
      List<List<Rank>> engines = engines(harness);
      for (long seed = 0; seed < 8; seed++) {
        random.setSeed(seed);
        byte[][] blocks = new byte[keys][];
        for (int key = 0; key < keys; key++) {
          blocks[key] = values();
          for (int spoiled = random.nextInt(4); spoiled > 1; spoiled--) {
            spoil(
                blocks[key], random.nextInt(LAYERS), random.nextInt(PLANES), random.nextInt(HEADS));
          }
        }
        int hits = 0;
        for (int step = 0; step < 100; step++) {
          List<Rank> engine = engines.get(random.nextInt(engines.size()));
          int key = random.nextInt(keys);
          int target = random.nextInt(BLOCKS);
          if (random.nextInt(10) == 0) {
            engine.getFirst().client.sendKeys(Verb.DELETE, key, 1);
            assertEquals(Verb.DELETE, engine.getFirst().client.await().verb());
          } else if (random.nextBoolean()) {
            putTogether(harness, gpu, engine, key, target, blocks[key]);
          } else {
            hits += getApart(engine, key, target, blocks[key], "seed " + seed + " step " + step);
          }
          harness.agent.checkInvariants();
        }
        assertTrue(hits > 10, "seed " + seed + ": " + hits + " hits");
        harness.nowNs += IndexHarness.LEASE_NS + 1;
        workUntilIdle(harness);
        Rank any = engines.getFirst().getFirst();
        clear(any);
        assertEquals(0, slotsInUse(harness, any));
      }
      assertTrue(count(harness, Counter.PUT_ENCODED) > 40);
      assertTrue(count(harness, Counter.PUT_RAW) > 40);
    }
  }

  /** Ranks put a block in any order; sometimes all at once, and sometimes one does not. */
  private void putTogether(
      IndexHarness harness, FileGpu gpu, List<Rank> engine, long key, int target, byte[] block)
      throws ProtocolViolation {
    List<Rank> ranks = new ArrayList<>(engine);
    Collections.shuffle(ranks, random);
    boolean isAtOnce = random.nextBoolean();
    int count = random.nextInt(5) == 0 ? ranks.size() - 1 : ranks.size();
    if (isAtOnce) {
      gpu.hold();
    }
    for (Rank rank : ranks.subList(0, count)) {
      rank.write(target, block);
      rank.offload(key, target);
      if (!isAtOnce) {
        assertEquals(Verb.OFFLOAD, rank.client.await().verb());
      }
      int ignored = harness.agent.doWork();
    }
    gpu.letGo();
    for (Rank rank : isAtOnce ? ranks.subList(0, count) : List.<Rank>of()) {
      assertEquals(Verb.OFFLOAD, rank.client.await().verb());
    }
    if (count < ranks.size()) {
      harness.nowNs += IndexHarness.LEASE_NS + 1;
    }
  }

  /** Each rank gets its part, and compares it; returns how many got one. */
  private static int getApart(List<Rank> engine, long key, int target, byte[] block, String when)
      throws ProtocolViolation {
    int hits = 0;
    for (Rank rank : engine) {
      if (rank.get(key, target, 0, 0) == Status.OK) {
        byte[] got = new byte[BLOCK_BYTES];
        byte[] expected = new byte[BLOCK_BYTES];
        rank.read(target, got);
        rank.write(target, block);
        rank.read(target, expected);
        assertArrayEquals(expected, got, when);
        hits++;
      }
    }
    return hits;
  }

  @Test
  void blocksWithLoss_areReportedByLayer_andRawBlocksAreNot()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      Rank whole = new Rank(harness, 0, LAYERS, 0, HEADS);
      whole.write(0, spoil(computed(), 0, 0, 0));
      assertEquals(Status.OK, whole.put(1, 0));
      workUntilIdle(harness);
      assertEquals(List.of(), reportedErrors(whole));
      byte[] block = values();
      int layerBytes = BLOCK_BYTES / LAYERS;
      System.arraycopy(computed(), 0, block, 2 * layerBytes, layerBytes);
      whole.write(0, block);
      assertEquals(Status.OK, whole.put(2, 0));
      workUntilIdle(harness);
      List<Double> errors = reportedErrors(whole);
      assertEquals(encoding.kind().isLossy() ? LAYERS : 0, errors.size());
      for (int layer = 0; layer < errors.size(); layer++) {
        assertEquals(layer == 2 ? 0.022 : 0, errors.get(layer), layer == 2 ? 0.005 : 0);
      }
    }
  }

  /** The errors of the only namespace, as clients see them. */
  private static List<Double> reportedErrors(Rank rank) throws ProtocolViolation {
    JsonObject all = Json.parse(rank.client.stats()).asObject();
    JsonValue errors = all.get("namespaces").asArray().get(0).asObject().get("encoding_errors");
    return errors == null
        ? List.of()
        : errors.asArray().values().stream().map(JsonValue::asDouble).toList();
  }

  @Test
  void spoiledBlock_ofTheseTests_doesNotFit() {
    assertTrue(fits(values()));
    assertFalse(fits(spoil(values(), 0, 0, 0)));
  }
}
