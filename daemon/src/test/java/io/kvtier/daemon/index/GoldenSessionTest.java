package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.move.StoreParts;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.WriterParts;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.ledger.NoLedger;
import io.kvtier.tiers.slots.SlotAllocator;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

/**
 * The daemon's side of {@code golden/session.txt}; the Python client's tests read the same file.
 */
class GoldenSessionTest {
  private static final int SLAB_BYTES = 1 << 20;
  private static final long NOW_NS = 1_000_000_000L;

  private record Line(boolean fromClient, String title, String hex) {}

  private static List<Line> transcript() throws IOException {
    Path file = Path.of("..", "protocol", "src", "test", "resources", "golden", "session.txt");
    List<Line> lines = new ArrayList<>();
    for (String text : Files.readAllLines(file)) {
      if (text.startsWith(">") || text.startsWith("<")) {
        lines.add(new Line(text.startsWith(">"), text.substring(2), ""));
      } else if (!text.isBlank() && !text.startsWith("#")) {
        Line last = lines.removeLast();
        lines.add(new Line(last.fromClient, last.title, last.hex + text.replace(" ", "")));
      }
    }
    return lines;
  }

  @Test
  void session_answersByteForByte() throws IOException, ProtocolViolation {
    try (Arena arena = Arena.ofShared();
        Directory directory = new Directory(64, 1, 4096, 2)) {
      MemorySegment slab = arena.allocate(SLAB_BYTES, 4096);
      MemorySegment daemonRegion = arena.allocate(DaemonRegionDescriptor.REGION_BYTES, 4096);
      IndexAgent agent =
          new IndexAgent(
              new IndexContext(
                  new IndexContext.Identity("golden", 1, daemonRegion),
                  new IndexCore(
                      () -> NOW_NS,
                      directory,
                      new Namespaces(Tenants.NONE),
                      new Counters(daemonRegion),
                      new Latencies(),
                      new Limits(
                          4,
                          16,
                          16,
                          64,
                          64,
                          0.25,
                          0.5,
                          new Limits.Times(
                              30_000_000_000L,
                              600_000_000_000L,
                              3600_000_000_000L,
                              30_000_000_000L,
                              5_000_000_000L,
                              60_000_000_000L,
                              Limits.STANDSTILL_NS))),
                  new StoreParts.Tiers(
                      new TierParts.First(
                          KnownTiers.HOST,
                          new TierParts.Space(new SlotAllocator(1, SLAB_BYTES, 4096), 0, "lru"),
                          new NoLedger(),
                          i -> slab,
                          new TierParts.Checksums(new IndexHarness.NoPipeline(), 1, 4096),
                          0),
                      List.of(
                          new TierParts.Lower(
                              KnownTiers.SSD,
                              new TierParts.Space(
                                  new SlotAllocator(0, SLAB_BYTES, 4096), 4096, "lru"),
                              "evicted",
                              new TierParts.Devices(List.of(new IndexHarness.NoPipeline()), 1),
                              new TierParts.Pace(0, 0),
                              new TierParts.Place("", "", false))),
                      List.of(),
                      null),
                  null,
                  null,
                  new RequestTap(false, 0, () -> NOW_NS, new Counters(daemonRegion)),
                  WriterParts.ofNewMemory(64, 64)));
      long ring = Protocol.RING_BYTES_MIN;
      SessionRegion region;
      try (Descriptor memory =
          SharedMemory.create("golden", SessionRegion.regionBytes(ring, ring))) {
        region = SessionRegion.create(memory, 1, ring, ring, arena);
      }
      Session session =
          new Session(
              1,
              Session.Client.of("golden", 1, 0),
              Grant.ALL,
              region,
              1,
              new Session.Owner() {
                @Override
                public void end(Session ended, Status reason, String why) {
                  throw new AssertionError(why);
                }

                @Override
                public void released(Session ended) {}
              });
      agent.offerOpen(session);
      RingProducer requests = region.requestProducer();
      RingConsumer completions = region.completionConsumer();
      for (Line line : transcript()) {
        if (line.fromClient) {
          byte[] bytes = HexFormat.of().parseHex(line.hex);
          long at = requests.tryClaim(bytes.length);
          MemorySegment.copy(bytes, 0, region.segment(), ValueLayout.JAVA_BYTE, at, bytes.length);
          requests.publish();
          agent.doWork();
          agent.checkInvariants();
        } else {
          assertEquals(true, completions.hasNext(), "no answer: " + line.title);
          int length = completions.recordBytes();
          byte[] bytes =
              region.segment().asSlice(completions.offset(), length).toArray(ValueLayout.JAVA_BYTE);
          completions.skip(length);
          assertEquals(line.hex, HexFormat.of().formatHex(bytes), line.title);
        }
      }
      assertFalse(completions.hasNext());
    }
  }
}
