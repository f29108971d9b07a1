package io.kvtier.tiers.transfer;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import org.jctools.queues.atomic.SpmcAtomicArrayQueue;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;
import org.openjdk.jcstress.infra.results.JJ_Result;

/**
 * What two threads may see of each other where one hands work to another: every outcome that would
 * be a lost wake-up or a torn record is forbidden.
 */
public final class Interleavings {
  private static final int TAIL = 0;
  private static final int HEAD = 8;
  private static final int WAITING = 16;
  private static final int RING = 32;
  private static final int RING_BYTES = 32;
  private static final int RECORD_BYTES = 16;
  private static final int NO_RECORD = -1;

  private Interleavings() {}

  /** A ring of two records, and the word in which its consumer says that it sleeps. */
  public abstract static class Ring {
    final MemorySegment region = MemorySegment.ofArray(new long[(RING + RING_BYTES) / 8]);
    final RingProducer producer = new RingProducer(region, RING, RING_BYTES, TAIL, HEAD);
    final RingConsumer consumer =
        new RingConsumer(region, RING, RING_BYTES, TAIL, HEAD, RECORD_BYTES);

    final boolean produce(long payload) {
      try {
        long at = producer.tryClaim(RECORD_BYTES);
        if (at < 0) {
          return false;
        }
        Words.putInt(region, at, RECORD_BYTES);
        Words.putLong(region, at + 8, payload);
        producer.publish();
        return true;
      } catch (ProtocolViolation e) {
        throw new IllegalStateException(e);
      }
    }

    final long consume() {
      try {
        if (!consumer.hasNext()) {
          return NO_RECORD;
        }
        int bytes = consumer.recordBytes();
        long payload = Words.getLong(region, consumer.offset() + 8);
        consumer.skip(bytes);
        consumer.release();
        return payload;
      } catch (ProtocolViolation e) {
        throw new IllegalStateException(e);
      }
    }

    final boolean hasNext() {
      try {
        return consumer.hasNext();
      } catch (ProtocolViolation e) {
        throw new IllegalStateException(e);
      }
    }
  }

  /** A record is seen whole or not at all, and in order. */
  @JCStressTest
  @Outcome(id = "-1, -1", expect = ACCEPTABLE, desc = "nothing is there yet")
  @Outcome(id = "-1, 7", expect = ACCEPTABLE, desc = "it came between the looks")
  @Outcome(id = "7, -1", expect = ACCEPTABLE, desc = "the first only")
  @Outcome(id = "7, 8", expect = ACCEPTABLE, desc = "both")
  @Outcome(expect = FORBIDDEN, desc = "a record that is torn or out of order")
  @State
  public static class Publication extends Ring {
    @Actor
    public void producer() {
      boolean ignored = produce(7) && produce(8);
    }

    @Actor
    public void consumer(JJ_Result result) {
      result.r1 = consume();
      result.r2 = consume();
    }
  }

  /** Space is written again only after its record was read. */
  @JCStressTest
  @Outcome(id = "1, 0", expect = ACCEPTABLE, desc = "the ring was full")
  @Outcome(id = "1, 1", expect = ACCEPTABLE, desc = "the space was given back in time")
  @Outcome(expect = FORBIDDEN, desc = "a record was overwritten while it was read")
  @State
  public static class Reuse extends Ring {
    /** Begins with a full ring. */
    public Reuse() {
      boolean ignored = produce(1) && produce(2);
    }

    @Actor
    public void producer(JJ_Result result) {
      result.r2 = produce(3) ? 1 : 0;
    }

    @Actor
    public void consumer(JJ_Result result) {
      result.r1 = consume();
    }
  }

  /** The doorbell: whoever publishes sees that the consumer sleeps, or the consumer the record. */
  @JCStressTest
  @Outcome(id = "0, 1", expect = ACCEPTABLE, desc = "no bell, but the record is seen")
  @Outcome(id = "1, 0", expect = ACCEPTABLE, desc = "asleep, and woken")
  @Outcome(id = "1, 1", expect = ACCEPTABLE, desc = "both")
  @Outcome(id = "0, 0", expect = FORBIDDEN, desc = "asleep beside a record: a lost wake-up")
  @State
  public static class Doorbell extends Ring {
    @Actor
    public void producer(II_Result result) {
      boolean ignored = produce(7);
      Words.fullFence();
      result.r1 = Words.getIntVolatile(region, WAITING);
    }

    @Actor
    public void consumer(II_Result result) {
      Words.putIntVolatile(region, WAITING, 1);
      Words.fullFence();
      result.r2 = hasNext() ? 1 : 0;
    }
  }

  /** A pipeline's worker: woken, or it finds the transfer in its last look. */
  @JCStressTest
  @Outcome(id = "-1, 1", expect = ACCEPTABLE, desc = "nobody is woken, but the work is found")
  @Outcome(id = "0, 0", expect = ACCEPTABLE, desc = "asleep, and woken")
  @Outcome(id = "0, 1", expect = ACCEPTABLE, desc = "both")
  @Outcome(id = "-1, 0", expect = FORBIDDEN, desc = "asleep beside its work: a lost wake-up")
  @State
  public static class IdleWorker {
    private static final Transfer WORK = new Transfer(0);

    private final SpmcAtomicArrayQueue<Transfer> queue = new SpmcAtomicArrayQueue<>(2);
    private final IdleWorkers idle = new IdleWorkers(1);

    @Actor
    public void index(II_Result result) {
      boolean ignored = queue.offer(WORK);
      result.r1 = idle.takeOne();
    }

    @Actor
    public void worker(II_Result result) {
      idle.announce(0);
      result.r2 = queue.poll() == null ? 0 : 1;
    }
  }

  /** An inbox's taker: woken, or it finds what came in its last look. */
  @JCStressTest
  @Outcome(id = "0, 1", expect = ACCEPTABLE, desc = "nobody is woken, but the item is found")
  @Outcome(id = "1, 0", expect = ACCEPTABLE, desc = "asleep, and woken")
  @Outcome(id = "1, 1", expect = ACCEPTABLE, desc = "both")
  @Outcome(id = "0, 0", expect = FORBIDDEN, desc = "asleep beside an item: a lost wake-up")
  @State
  public static class Handover {
    private static final Integer ITEM = 7;

    private final Inbox<Integer> inbox = new Inbox<>(2);

    @Actor
    public void giver(II_Result result) {
      boolean ignored = inbox.enqueue(ITEM);
      result.r1 = inbox.wakeSleeper() ? 1 : 0;
    }

    @Actor
    public void taker(II_Result result) {
      result.r2 = inbox.announceSleep() ? 0 : 1;
    }
  }
}
