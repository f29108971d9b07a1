package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.OuterBlocks;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeHints;
import io.kvtier.tiers.node.NodeReader;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.node.TcpTransport;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** A source of blocks that no class of the daemon names, asked before the object store. */
class FurtherSourceTest {
  /**
   * Another node: it has the blocks that a test names. Some are known at once, others when they are
   * asked for.
   */
  private static final class Neighbour implements BlockSource {
    private static final Traits TRAITS = Traits.ofObjects(null);

    /** A question of a get. */
    private record Question(int block, int priority, boolean prefetch) {}

    private final Set<Long> known = new HashSet<>();
    private final Set<Long> unknown = new HashSet<>();
    private final Set<Long> toFind = new HashSet<>();
    private final ArrayDeque<Question> questions = new ArrayDeque<>();
    private final byte[] key = new byte[32];
    private Directory directory;
    private Status answer = Status.OK;
    private int loads;
    private boolean isOpen = true;
    private final IndexHarness.InlinePipeline pipeline =
        new IndexHarness.InlinePipeline(this::read);

    @SuppressWarnings("NullAway.Init") // open() comes first
    Neighbour() {}

    BlockSource open(Directory of) {
      directory = of;
      return this;
    }

    private void read(Transfer transfer) {
      loads++;
      transfer.status = answer;
      transfer.bytes().fill((byte) 0);
      transfer.checksum = Checksums.of(transfer.bytes());
      transfer.annotationBytes = 0;
    }

    private Presence presence() {
      long number = ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN).getLong();
      return known.contains(number)
          ? Presence.PRESENT
          : unknown.contains(number) ? Presence.UNKNOWN : Presence.ABSENT;
    }

    @Override
    public Traits traits() {
      return TRAITS;
    }

    @Override
    public boolean keepsForms() {
      return true;
    }

    @Override
    public Pipeline pipeline() {
      return pipeline;
    }

    @Override
    public int depth() {
      return 4;
    }

    @Override
    public boolean isOpen() {
      return isOpen;
    }

    @Override
    public Presence presenceOfSought(Namespaces.Namespace namespace, int keyBytes, int group) {
      directory.copySought(key);
      return presence();
    }

    @Override
    public void forgetAbsence(Namespaces.Namespace namespace, int keyBytes, int group) {
      if (presenceOfSought(namespace, keyBytes, group) == Presence.ABSENT) {
        unknown.add(ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN).getLong());
      }
    }

    @Override
    public Presence presenceOf(int block) {
      directory.copyKey(block, key);
      return presence();
    }

    @Override
    public boolean has(int block) {
      return presenceOf(block) == Presence.PRESENT;
    }

    @Override
    public boolean seek(Namespaces.Namespace namespace, int group, int keyBytes) {
      directory.copySought(key);
      toFind.add(ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN).getLong());
      return true;
    }

    @Override
    public void endLookup() {}

    @Override
    public boolean ask(int block, int priority, boolean prefetch) {
      questions.add(new Question(block, priority, prefetch));
      return true;
    }

    @Override
    public int collect(Finder finder) {
      int count = questions.size();
      for (Question one = questions.poll(); one != null; one = questions.poll()) {
        var _ = presenceOf(one.block);
        long number = ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN).getLong();
        boolean isThere = number % 2 == 0;
        finder.found(
            one.block, one.priority, one.prefetch, isThere ? Presence.PRESENT : Presence.ABSENT);
      }
      return count;
    }

    @Override
    public boolean hasFound() {
      return !questions.isEmpty();
    }

    @Override
    public void advance() {
      // The unknown blocks of a lookup are known in the next round: even numbers are present.
      toFind.forEach(number -> {
        unknown.remove(number);
        if (number % 2 == 0) {
          known.add(number);
        }
      });
      toFind.clear();
    }

    @Override
    public int waiting() {
      return questions.size() + toFind.size();
    }

    @Override
    public void fetched(int block, Status status) {
      if (status != Status.OK) {
        directory.copyKey(block, key);
        known.remove(ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN).getLong());
      }
    }

    @Override
    public void checkInvariants() {}
  }

  private final Neighbour neighbour = new Neighbour();
  private final Neighbour second = new Neighbour();

  private IndexHarness harness() throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(1, 16)
            .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
            .source((core, _, _) -> neighbour.open(core.directory()))
            .source((core, _, _) -> second.open(core.directory())));
  }

  private static Status get(IndexHarness.Client client, long key) throws ProtocolViolation {
    client.sendKeys(Verb.ACQUIRE, key, 1);
    return client.await().first();
  }

  @Test
  void knownBlock_isFoundAndRead() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      neighbour.known.add(4L);
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 4));
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 5));
      assertEquals(Status.OK, get(client, 4));
      assertEquals(1, neighbour.loads);
      assertEquals(1, harness.counters.get(Counter.OBJECT_FETCHED));
      assertEquals(Status.MISS, get(client, 5));
    }
  }

  @Test
  void unknownBlock_isAskedFor_byLookupsAndGets() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      neighbour.unknown.addAll(Set.of(6L, 7L, 8L));
      assertEquals(Status.PENDING, client.ask(Verb.LOOKUP, 6));
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 6));
      // A get waits for the answer: eight is present, and seven is absent.
      assertEquals(Status.OK, get(client, 8));
      assertEquals(Status.MISS, get(client, 7));
    }
  }

  @Test
  void failedRead_goesOnToTheNextSource() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      neighbour.known.add(4L);
      second.known.add(4L);
      neighbour.answer = Status.IO_ERROR;
      assertEquals(Status.OK, get(client, 4));
      assertEquals(1, neighbour.loads);
      assertEquals(1, second.loads);
      second.answer = Status.MISS;
      second.known.add(2L);
      assertEquals(Status.MISS, get(client, 2));
      assertEquals(0, harness.counters.get(Counter.CORRUPT));
    }
  }

  @Test
  void nodesThatCannotBeReached_doNotKeepLookupsFromTheNextSource()
      throws IOException, ProtocolViolation {
    try (TcpTransport transport = new TcpTransport(null);
        IndexHarness harness =
            new IndexHarness(
                new IndexHarness.Settings(1, 16)
                    .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
                    .source(OuterBlocks.opener(unreachable(transport, new NodeHints()), () -> {}))
                    .source((core, _, _) -> second.open(core.directory())))) {
      IndexHarness.Client client = harness.open();
      client.register();
      second.unknown.add(6L);
      assertEquals(Status.PENDING, client.ask(Verb.LOOKUP, 6));
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 6));
      assertEquals(Status.OK, get(client, 6));
    }
  }

  @Test
  void freshLookup_asksAgainAboutAbsentBlocks() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 6));
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 6));
      assertEquals(Status.PENDING, freshLookup(client, 6));
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 6));
      // What is known to be there is not asked for again.
      assertEquals(Status.OK, freshLookup(client, 6));
    }
  }

  @Test
  void freshLookup_forgetsOnlyThatNodesDoNotHaveABlock() throws IOException, ProtocolViolation {
    for (Presence known : Presence.values()) {
      AtomicInteger forgotten = new AtomicInteger();
      NodeHints hints =
          new NodeHints() {
            @Override
            public Presence lookup(ObjectKey key) {
              return known;
            }

            @Override
            public void forget(ObjectKey key) {
              forgotten.incrementAndGet();
            }
          };
      try (TcpTransport transport = new TcpTransport(null);
          IndexHarness harness =
              new IndexHarness(
                  new IndexHarness.Settings(1, 16)
                      .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
                      .source(OuterBlocks.opener(unreachable(transport, hints), () -> {})))) {
        IndexHarness.Client client = harness.open();
        client.register();
        var _ = client.ask(Verb.LOOKUP, 6);
        assertEquals(0, forgotten.get());
        var _ = freshLookup(client, 6);
        assertEquals(known == Presence.ABSENT ? 1 : 0, forgotten.get(), known.name());
      }
    }
  }

  @Test
  void freshRequest_thatLooksNothingUp_isAViolation() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.sendWords(Verb.ACQUIRE, RequestDescriptor.FLAG_FRESH, 8, 1, new long[] {6});
      int ignored = harness.agent().doWork();
      assertFalse(client.hasAnswer());
      assertEquals(Status.INVALID_ARGUMENT, client.endReason());
    }
  }

  @Test
  void expectedBlock_withoutOtherNodes_isFetchedAsAlways() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      second.unknown.add(6L);
      client.shard = 77;
      client.sendWords(Verb.ACQUIRE, RequestDescriptor.FLAG_EXPECTED, 8, 2, new long[] {6, 7});
      IndexHarness.Answer answer = client.await();
      assertEquals(Status.OK, answer.first());
      assertEquals(Status.MISS, answer.last());
      assertEquals(
          0,
          Latencies.total(harness.latencies.counts(Latencies.Kind.GET)),
          "it waits for others, so its time says nothing of this daemon");
    }
  }

  @Test
  void expectedBlocks_ofAnotherRequestThanAGet_areAViolation()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.sendWords(Verb.LOOKUP, RequestDescriptor.FLAG_EXPECTED, 8, 1, new long[] {6});
      int ignored = harness.agent().doWork();
      assertFalse(client.hasAnswer());
      assertEquals(Status.INVALID_ARGUMENT, client.endReason());
    }
  }

  @Test
  void nodeOfAGetThatExpectsNothing_isRefused() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.shard = 77;
      client.sendWords(Verb.ACQUIRE, 0, 8, 1, new long[] {6});
      assertEquals(Status.INVALID_ARGUMENT, client.work().status());
    }
  }

  private static Status freshLookup(IndexHarness.Client client, long key) throws ProtocolViolation {
    client.sendWords(Verb.LOOKUP, RequestDescriptor.FLAG_FRESH, 8, 1, new long[] {key});
    return client.work().first();
  }

  private static NodeTier unreachable(TcpTransport transport, NodeHints hints) {
    NodeTier tier =
        new NodeTier(
            List.of(transport),
            new NodeReader.Options("test", 1, () -> "", text -> text, 1, 1),
            hints,
            () -> 1,
            () -> {},
            TroubleLog.NONE);
    tier.join(new NodeAddress("127.0.0.1", 1));
    return tier;
  }

  @Test
  void absentInOne_isAskedForInTheNext_andAClosedOneIsPassed()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      neighbour.unknown.add(9L);
      second.known.add(9L);
      assertEquals(Status.OK, get(client, 9));
      assertEquals(0, neighbour.loads);
      neighbour.known.add(10L);
      second.known.add(10L);
      neighbour.isOpen = false;
      assertEquals(Status.OK, get(client, 10));
      assertEquals(0, neighbour.loads);
      assertEquals(2, second.loads);
    }
  }
}
