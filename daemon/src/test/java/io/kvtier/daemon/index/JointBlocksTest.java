package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.daemon.index.report.HealthReport;
import io.kvtier.daemon.index.report.HealthWatch;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Blocks that several ranks put together, each with its layers and heads. */
final class JointBlocksTest {
  private static final int SLOT = IndexHarness.SLOT_BYTES;
  private static final int HEAD_BYTES = SLOT / 8;
  private static final String FORM = "LCNHD:2x1:1x4x" + HEAD_BYTES;
  private static final long SECOND_NS = 1_000_000_000L;

  /** A block of two layers and four heads, in a region in host memory. */
  private static String onHost(int firstLayer, int layers, int firstHead, int heads) {
    return String.join(
        "\n",
        "device=host",
        "layers=" + layers,
        "blocks=1",
        "block_tokens=1",
        "block_layers=2",
        "first_layer=" + firstLayer,
        "part=kv:BHD:1,%d,%d:%d,%d,1:1:4:%d"
            .formatted(heads, HEAD_BYTES, heads * HEAD_BYTES, HEAD_BYTES, firstHead));
  }

  private static final class Rank {
    final IndexHarness.Client client;
    final int region;

    Rank(IndexHarness harness, String region) throws IOException, ProtocolViolation {
      client = harness.open();
      assertEquals(Status.OK, client.say(Verb.REGISTER, SLOT, "name=model\nform=" + FORM));
      this.region = client.registerRegion(region);
    }

    IndexHarness.Answer reserve(long key) throws ProtocolViolation {
      return client.reserveShard(region, key, 1);
    }

    Status commit(IndexHarness.Answer reserved) throws ProtocolViolation {
      return client.commit(reserved.ids().getFirst());
    }
  }

  private static IndexHarness harness(int slots) throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(1, slots)
            .sessions(16)
            .checksums(new IndexHarness.NoPipeline(), 1 << 20));
  }

  private static Rank left(IndexHarness harness) throws IOException, ProtocolViolation {
    return new Rank(harness, onHost(0, 2, 0, 2));
  }

  private static Rank right(IndexHarness harness) throws IOException, ProtocolViolation {
    return new Rank(harness, onHost(0, 2, 2, 2));
  }

  private static void pass(IndexHarness harness, long ns) {
    harness.nowNs += ns;
    for (int round = 0; round < 4; round++) {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    }
  }

  private static List<String> troubles(IndexHarness harness) {
    return harness.agent.health().troubles().stream().map(HealthReport.Trouble::part).toList();
  }

  @Test
  void block_isVisible_whenTheLastRankHasWritten() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(4)) {
      Rank left = left(harness);
      Rank right = right(harness);
      IndexHarness.Answer first = left.reserve(7);
      IndexHarness.Answer second = right.reserve(7);
      assertEquals(List.of(Status.OK, Status.OK), List.of(first.first(), second.first()));
      assertEquals(Status.OK, left.commit(first));
      assertNotEquals(Status.OK, right.client.ask(Verb.LOOKUP, 7));
      assertEquals(Status.PENDING, left.client.ask(Verb.RESERVE, 7), "nobody puts it as a whole");
      assertEquals(Status.OK, right.commit(second));
      assertEquals(Status.OK, left.client.ask(Verb.LOOKUP, 7));
      assertEquals(1, harness.counters.get(Counter.PUT_BLOCKS));
      assertEquals(Status.EXISTS, left.reserve(7).first());
    }
  }

  @Test
  void everyCutOfABlock_isWhole_withTheLastPart() throws IOException, ProtocolViolation {
    Random random = new Random(5);
    try (IndexHarness harness = harness(8)) {
      for (long key = 0; key < 40; key++) {
        List<Rank> ranks = new ArrayList<>();
        int ranksOfLayer = 1 << random.nextInt(3);
        int stages = 1 + random.nextInt(2);
        for (int stage = 0; stage < stages; stage++) {
          for (int rank = 0; rank < ranksOfLayer; rank++) {
            int heads = 4 / ranksOfLayer;
            ranks.add(new Rank(harness, onHost(stage, 2 / stages, rank * heads, heads)));
          }
        }
        List<IndexHarness.Answer> reserved = new ArrayList<>();
        for (Rank rank : ranks) {
          reserved.add(rank.reserve(key));
        }
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < ranks.size(); i++) {
          order.add(random.nextInt(i + 1), i);
        }
        for (int i : order) {
          assertNotEquals(Status.OK, ranks.getFirst().client.ask(Verb.LOOKUP, key));
          assertEquals(Status.OK, ranks.get(i).commit(reserved.get(i)));
        }
        assertEquals(Status.OK, ranks.getFirst().client.ask(Verb.LOOKUP, key));
        for (Rank rank : ranks) {
          harness.close(rank.client);
        }
      }
    }
  }

  @Test
  void bytesThatSomebodyWrites_areNotWrittenTwice() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(4)) {
      Rank left = left(harness);
      Rank again = left(harness);
      Rank whole = new Rank(harness, onHost(0, 2, 0, 4));
      IndexHarness.Answer first = left.reserve(7);
      assertEquals(Status.PENDING, again.reserve(7).first());
      assertEquals(Status.PENDING, whole.reserve(7).first(), "half of them");
      assertEquals(Status.OK, left.commit(first));
      assertEquals(Status.PENDING, again.reserve(7).first());
      Rank right = right(harness);
      assertEquals(Status.OK, right.commit(right.reserve(7)));
      assertEquals(Status.EXISTS, again.reserve(7).first());
      assertEquals(Status.EXISTS, whole.reserve(7).first());
    }
  }

  @Test
  void shardThatDoesNotCome_costsTheBlock_andItsSlotIsFreeAgain()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1)) {
      Rank left = left(harness);
      Rank right = right(harness);
      assertEquals(Status.OK, left.commit(left.reserve(7)));
      pass(harness, IndexHarness.LEASE_NS - SECOND_NS);
      assertEquals(0, harness.counters.get(Counter.PARTIAL_EXPIRED), "too early");
      pass(harness, 2 * SECOND_NS);
      assertEquals(1, harness.counters.get(Counter.PARTIAL_EXPIRED));
      assertEquals(List.of("puts/incomplete"), troubles(harness));
      pass(harness, HealthWatch.RECENT_NS);
      assertEquals(List.of(), troubles(harness));
      assertEquals(Status.MISS, right.client.ask(Verb.LOOKUP, 7));
      IndexHarness.Answer next = right.reserve(8);
      assertEquals(Status.OK, next.first(), "there is one slot");
      assertEquals(Status.OK, left.commit(left.reserve(8)));
      assertEquals(Status.OK, right.commit(next));
      assertEquals(Status.OK, right.client.ask(Verb.LOOKUP, 8));
    }
  }

  @Test
  void rankThatDies_leavesNothing_whicheverRankItIs() throws IOException, ProtocolViolation {
    for (boolean isFirst : new boolean[] {true, false}) {
      try (IndexHarness harness = harness(1)) {
        Rank left = left(harness);
        Rank right = right(harness);
        IndexHarness.Answer first = left.reserve(7);
        IndexHarness.Answer second = right.reserve(7);
        harness.close(isFirst ? left.client : right.client);
        Rank survivor = isFirst ? right : left;
        assertEquals(Status.STALE, survivor.commit(isFirst ? second : first));
        assertEquals(Status.MISS, survivor.client.ask(Verb.LOOKUP, 7));
        assertEquals(Status.OK, survivor.reserve(8).first(), "there is one slot");
      }
    }
  }

  @Test
  void rankThatDies_afterItsCommit_hasWritten() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1)) {
      Rank left = left(harness);
      Rank right = right(harness);
      IndexHarness.Answer first = left.reserve(7);
      IndexHarness.Answer second = right.reserve(7);
      assertEquals(Status.OK, right.commit(second));
      harness.close(right.client);
      assertEquals(Status.OK, left.commit(first));
      assertEquals(Status.OK, left.client.ask(Verb.LOOKUP, 7));
    }
  }

  @Test
  void reservationThatExpires_costsTheBlock_andItsSlotIsDoubtfulUntilTheWriterSaysSo()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1)) {
      Rank left = left(harness);
      Rank right = right(harness);
      IndexHarness.Answer first = left.reserve(7);
      pass(harness, IndexHarness.RESERVATION_NS / 2);
      IndexHarness.Answer second = right.reserve(7);
      pass(harness, IndexHarness.RESERVATION_NS / 2 + SECOND_NS);
      assertEquals(1, harness.counters.get(Counter.RESERVATIONS_EXPIRED));
      assertEquals(Status.STALE, right.commit(second));
      assertEquals(1, harness.counters.get(Counter.GAUGE_LATE_WRITES));
      assertEquals(Status.STALE, left.commit(first));
      pass(harness, SECOND_NS);
      assertEquals(0, harness.counters.get(Counter.GAUGE_LATE_WRITES));
      assertEquals(Status.OK, right.reserve(8).first());
    }
  }

  @Test
  void abortedShard_costsTheBlock() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1)) {
      Rank left = left(harness);
      Rank right = right(harness);
      IndexHarness.Answer first = left.reserve(7);
      IndexHarness.Answer second = right.reserve(7);
      left.client.sendIds(Verb.ABORT, 0, 1, first.ids().getFirst());
      assertEquals(Status.OK, left.client.work().first());
      assertEquals(Status.PENDING, left.reserve(7).first(), "the other rank may still write there");
      assertEquals(Status.STALE, right.commit(second));
      assertEquals(Status.OK, left.reserve(7).first());
    }
  }

  @Test
  void replicas_storeEachBlockOnce_andTakeTurns() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(256)) {
      int[] stored = new int[2];
      String whole = onHost(0, 2, 0, 4);
      List<Rank> ranks =
          List.of(
              new Rank(harness, whole + "\nreplica=0/2"),
              new Rank(harness, whole + "\nreplica=1/2"));
      for (long key = 0; key < 200; key++) {
        for (int i = 0; i < 2; i++) {
          IndexHarness.Answer reserved = ranks.get(i).reserve(key);
          if (reserved.first() == Status.OK) {
            stored[i]++;
            assertEquals(Status.OK, ranks.get(i).commit(reserved));
          } else {
            assertTrue(
                reserved.first() == Status.PENDING || reserved.first() == Status.EXISTS,
                "" + reserved.first());
          }
        }
        assertEquals(Status.OK, ranks.getFirst().client.ask(Verb.LOOKUP, key));
      }
      assertEquals(200, stored[0] + stored[1]);
      assertTrue(Math.min(stored[0], stored[1]) > 60, Arrays.toString(stored));
    }
  }

  private static String refusal(IndexHarness.Client client, String region)
      throws ProtocolViolation {
    client.sendText(Verb.REGISTER_REGION, 0, region);
    return client.text();
  }

  @Test
  void regionOfOtherBlocks_isRefused_andTheMessageNamesBothForms()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1)) {
      IndexHarness.Client client = harness.open();
      assertEquals(Status.OK, client.say(Verb.REGISTER, SLOT, "name=model\nform=" + FORM));
      String other = onHost(0, 2, 0, 2).replace("device=host", "device=host\norder=LCHND");
      assertEquals(
          "blocks of namespace 'model' have the form "
              + FORM
              + ", blocks of the region the form "
              + FORM.replace("LCNHD", "LCHND"),
          refusal(client, other));
      assertTrue(refusal(client, onHost(1, 2, 0, 2)).contains("layers 1 to 3 are not all in"));
      assertTrue(refusal(client, onHost(0, 2, 3, 2)).contains("heads 3 to 5 of part 'kv'"));
      assertTrue(refusal(client, onHost(0, 2, 0, 2) + "\nreplica=2/2").contains("replica 2 of 2"));
      assertTrue(refusal(client, onHost(0, 2, 0, 2) + "\nreplica=2").contains("NUMBER/COUNT"));
      assertTrue(
          refusal(client, onHost(0, 2, 0, 2) + "\nallocation=passed:0+1:4096")
              .contains("was not passed"));
    }
  }

  @Test
  void shardOfANamespaceWithoutAForm_isRefused() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1)) {
      IndexHarness.Client client = harness.open();
      client.register();
      assertEquals(
          "namespace 'test' has no property 'form', and the region has only some layers or heads of"
              + " its blocks: register a namespace with form="
              + FORM,
          refusal(client, onHost(0, 2, 0, 2)));
      assertEquals(1, client.registerRegion(onHost(0, 2, 0, 4)));
    }
  }

  @Test
  void requestForAShardThatCannotBe_isRefused_andTheSessionGoesOn()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1)) {
      Rank rank = left(harness);
      IndexHarness.Client client = rank.client;
      assertEquals(Status.INVALID_ARGUMENT, client.reserveShard(rank.region + 1, 7, 1).status());
      client.shard = rank.region;
      client.sendKeys(Verb.ACQUIRE, 7, 1);
      assertEquals(Status.INVALID_ARGUMENT, client.work().status(), "only RESERVE has a shard");
      client.sendWords(Verb.RESERVE, RequestDescriptor.FLAG_CHECKSUMS, 8, 1, new long[] {7});
      assertEquals(Status.INVALID_ARGUMENT, client.work().status(), "a shard has no checksum");
      client.shard = 0;
      client.sendBlock(Verb.OFFLOAD, rank.region, 0, 0, 7, 0);
      assertEquals(Status.INVALID_ARGUMENT, client.work().status(), "nothing to copy from");
      client.sendAdvertise(rank.region, 0, new long[] {7}, 0);
      assertEquals(Status.INVALID_ARGUMENT, client.work().status(), "nothing to copy from");
      IndexHarness.Answer reserved = rank.reserve(7);
      client.sendIds(
          Verb.COMMIT, RequestDescriptor.FLAG_CHECKSUMS, 1, reserved.ids().getFirst(), 1);
      assertEquals(Status.STALE, client.work().first(), "a shard has no checksum");
      assertEquals(Status.OK, rank.reserve(8).first());
    }
  }

  @Test
  void regionOnTheHost_isUnregistered_andItsReservationsStand()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1)) {
      Rank left = left(harness);
      Rank right = right(harness);
      IndexHarness.Answer reserved = left.reserve(7);
      left.client.send(Verb.UNREGISTER_REGION, 0, left.region, 0);
      assertEquals(Status.OK, left.client.work().status());
      assertEquals(Status.INVALID_ARGUMENT, left.reserve(8).status());
      assertEquals(Status.OK, left.commit(reserved));
      assertEquals(Status.OK, right.commit(right.reserve(7)));
      assertEquals(Status.OK, left.client.ask(Verb.LOOKUP, 7));
    }
  }

  /** A region of a GPU: two layers of a tensor each, with some of the four heads of a block. */
  private static String onGpu(Path folder, String file, int firstHead, int heads) {
    int width = heads * HEAD_BYTES;
    return String.join(
        "\n",
        "device=" + FileGpu.UUID,
        "layers=2",
        "blocks=2",
        "block_tokens=1",
        "part=kv:BHD:2,%d,%d:%d,%d,1:1:4:%d"
            .formatted(heads, HEAD_BYTES, width, HEAD_BYTES, firstHead),
        "allocation=" + FileGpu.handle(folder.resolve(file)),
        "tensor=0+0",
        "tensor=0+" + 2 * width);
  }

  private static void write(Path folder, String file, int heads, byte[] block) throws IOException {
    Files.write(folder.resolve(file), Arrays.copyOf(block, 4 * heads * HEAD_BYTES));
  }

  /** The bytes of block 0 in a region's file: layer by layer. */
  private static byte[] read(Path folder, String file, int heads) throws IOException {
    int width = heads * HEAD_BYTES;
    byte[] all = Files.readAllBytes(folder.resolve(file));
    byte[] block = new byte[2 * width];
    System.arraycopy(all, 0, block, 0, width);
    System.arraycopy(all, 2 * width, block, width, width);
    return block;
  }

  @Test
  void ranksOnGpus_storeOneBlock_thatARankWithAllHeadsLoads_andTheReverse()
      throws IOException, ProtocolViolation {
    Path folder = Files.createTempDirectory(Path.of("/dev/shm"), "kvj");
    Random random = new Random(3);
    for (String file : List.of("a", "b", "w", "c", "d")) {
      byte[] noise = new byte[2 * SLOT];
      random.nextBytes(noise);
      write(folder, file, file.equals("w") ? 4 : 2, noise);
    }
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(1, 4)
                .sessions(16)
                .checksums(new IndexHarness.NoPipeline(), 1 << 20)
                .gpu(new FileGpu(folder, 0)))) {
      Rank first = new Rank(harness, onGpu(folder, "a", 0, 2));
      Rank second = new Rank(harness, onGpu(folder, "b", 2, 2));
      Rank whole = new Rank(harness, onGpu(folder, "w", 0, 4));
      Rank third = new Rank(harness, onGpu(folder, "c", 0, 2));
      Rank fourth = new Rank(harness, onGpu(folder, "d", 2, 2));
      first.client.sendBlock(Verb.OFFLOAD, first.region, 0, 0, 7, 0);
      assertEquals(Status.OK, first.client.await().first());
      assertNotEquals(Status.OK, whole.client.ask(Verb.LOOKUP, 7));
      second.client.sendBlock(Verb.OFFLOAD, second.region, 0, 0, 7, 0);
      assertEquals(Status.OK, second.client.await().first());
      whole.client.sendBlock(Verb.ONBOARD, whole.region, 0, 0, 7, 0);
      assertEquals(Status.OK, whole.client.await().first());
      byte[] loaded = read(folder, "w", 4);
      int half = SLOT / 4;
      byte[] a = read(folder, "a", 2);
      byte[] b = read(folder, "b", 2);
      for (int layer = 0; layer < 2; layer++) {
        int at = layer * 2 * half;
        assertArrayEquals(
            Arrays.copyOfRange(a, layer * half, layer * half + half),
            Arrays.copyOfRange(loaded, at, at + half));
        assertArrayEquals(
            Arrays.copyOfRange(b, layer * half, layer * half + half),
            Arrays.copyOfRange(loaded, at + half, at + 2 * half));
      }
      whole.client.sendBlock(Verb.OFFLOAD, whole.region, 0, 0, 8, 0);
      assertEquals(Status.OK, whole.client.await().first());
      third.client.sendBlock(Verb.ONBOARD, third.region, 0, 0, 8, 0);
      assertEquals(Status.OK, third.client.await().first());
      fourth.client.sendBlock(Verb.ONBOARD, fourth.region, 0, 0, 8, 0);
      assertEquals(Status.OK, fourth.client.await().first());
      assertArrayEquals(a, read(folder, "c", 2));
      assertArrayEquals(b, read(folder, "d", 2));
    } finally {
      for (String file : List.of("a", "b", "w", "c", "d")) {
        Files.deleteIfExists(folder.resolve(file));
      }
      Files.delete(folder);
    }
  }
}
