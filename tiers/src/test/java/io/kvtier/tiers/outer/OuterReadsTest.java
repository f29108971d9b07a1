package io.kvtier.tiers.outer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

final class OuterReadsTest {
  private static final int THREADS = 2;
  private static final int BLOCK_BYTES = 1000;
  private static final int SLOT_OFFSET = 4096;

  private final MemorySegment slab = Arena.ofAuto().allocate(3L * SLOT_OFFSET);
  private final MemorySegment block = Arena.ofAuto().allocate(BLOCK_BYTES).fill((byte) 7);
  private long now;
  private final Breaker breaker = new Breaker(THREADS, () -> now);

  /** A read of a source. */
  private interface Read {
    long into(MemorySegment target) throws IOException;
  }

  private Transfer run(Read read) {
    OuterSource source =
        new OuterSource() {
          @Override
          public boolean has(BlockName name) {
            throw new AssertionError("reads ask no questions");
          }

          @Override
          public long read(BlockName name, MemorySegment target) throws IOException {
            assertEquals(
                new BlockName("0".repeat(15) + "1" + "0".repeat(15) + "2", "0a0b", 3), name);
            assertEquals(BLOCK_BYTES, target.byteSize());
            return read.into(target);
          }
        };
    Transfer transfer = new Transfer(0);
    transfer.namespaceHigh = 1;
    transfer.namespaceLow = 2;
    transfer.key[0] = 0xa;
    transfer.key[1] = 0xb;
    transfer.keyBytes = 2;
    transfer.group = 3;
    transfer.slab = slab;
    transfer.slabOffset = SLOT_OFFSET;
    transfer.length = BLOCK_BYTES;
    new OuterReads(source, breaker, TroubleLog.NONE).run(transfer);
    return transfer;
  }

  private long checksum() {
    return Integer.toUnsignedLong(Checksums.of(block));
  }

  @Test
  void read_bytesOfTheChecksum_areInTheSlot_andNothingBesideIt() {
    Transfer transfer =
        run(target -> {
          target.copyFrom(block);
          return checksum();
        });
    assertEquals(Status.OK, transfer.status);
    assertEquals((int) checksum(), transfer.checksum);
    assertEquals(-1, transfer.bytes().mismatch(block));
    assertEquals(-1, slab.asSlice(0, SLOT_OFFSET).mismatch(MemorySegment.ofArray(new byte[4096])));
    assertEquals(0, slab.get(ValueLayout.JAVA_BYTE, SLOT_OFFSET + BLOCK_BYTES));
  }

  @Test
  void read_bytesOfAnotherChecksum_orANumberThatIsNone_isCorrupt() {
    for (long answer : List.of(checksum() ^ 1, checksum() | 1L << 32, -2L, Long.MIN_VALUE)) {
      Transfer transfer =
          run(target -> {
            target.copyFrom(block);
            return answer;
          });
      assertEquals(Status.CORRUPT, transfer.status, () -> "answer " + answer);
    }
    assertEquals(Status.MISS, run(_ -> OuterSource.ABSENT).status);
  }

  @Test
  void read_sourceThatWritesAfterItsAnswer_doesNotReachTheSlot() {
    MemorySegment[] kept = new MemorySegment[1];
    Transfer transfer =
        run(target -> {
          kept[0] = target.copyFrom(block);
          return checksum();
        });
    kept[0].fill((byte) 9);
    assertEquals(-1, transfer.bytes().mismatch(block));
  }

  @Test
  void read_sourceThrows_isAnError_andSeveralInARowKeepReadsAwayForAWhile() {
    List<Read> failures =
        List.of(
            _ -> {
              throw new IOException("gone");
            },
            _ -> {
              throw new IllegalStateException("oh");
            },
            _ -> {
              throw new NoClassDefFoundError("Absent");
            });
    for (int i = 0; i < 7; i++) {
      Transfer transfer = run(failures.get(i % failures.size()));
      assertEquals(Status.IO_ERROR, transfer.status);
      assertFalse(transfer.cause.isEmpty());
    }
    assertTrue(breaker.lets());
    // An answer ends the row of failures.
    assertEquals(Status.MISS, run(_ -> OuterSource.ABSENT).status);
    for (int i = 0; i < 8; i++) {
      assertTrue(breaker.lets(), "after " + i);
      assertEquals(Status.IO_ERROR, run(failures.getFirst()).status);
    }
    assertFalse(breaker.lets());
    now += TimeUnit.SECONDS.toNanos(5);
    assertTrue(breaker.lets());
  }

  @Test
  void breaker_allThreadsStuckInReads_letsNoneUntilOneEnds() {
    breaker.begin();
    now += TimeUnit.MINUTES.toNanos(1);
    assertTrue(breaker.lets(), "a thread is free");
    breaker.begin();
    assertTrue(breaker.lets(), "the second read has just begun");
    now += TimeUnit.SECONDS.toNanos(10);
    assertFalse(breaker.lets());
    breaker.answered();
    assertTrue(breaker.lets());
  }
}
