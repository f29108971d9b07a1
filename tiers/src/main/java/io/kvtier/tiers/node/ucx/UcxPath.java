package io.kvtier.tiers.node.ucx;

import io.kvtier.tiers.node.FabricPath;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * One side of a path: a worker, and its endpoint towards the other side's worker. Blocks are
 * messages with their tags. Nothing but the end of the worker ends the use of memory for certain: a
 * message that has begun can't be cancelled, and the other side can be silent for ever.
 */
final class UcxPath implements FabricPath {
  /** How long the forced end of an endpoint may take; the worker ends next in any case. */
  private static final long CLOSE_NS = TimeUnit.MILLISECONDS.toNanos(100);

  /** The pause after a round of the end in which nothing moved. */
  private static final long CLOSE_REST_NS = TimeUnit.MICROSECONDS.toNanos(100);

  /** After this many rounds, the link has other work. */
  private static final int ROUNDS_MAX = 16;

  private static final long NO_ENDPOINT = 0;

  /** A block that is being sent. */
  private record Sending(long request, Runnable sent) {}

  /**
   * The block that is being received.
   *
   * @param isKept false if its bytes go nowhere
   */
  private record Receiving(long request, long tag, boolean isKept, Runnable received) {}

  private final Ucx ucx;
  private final long worker;
  private final byte[] address;
  private final UcxFabric.Sleep sleep;
  private final List<Sending> sending = new ArrayList<>();
  private final List<Runnable> ended = new ArrayList<>();
  private long endpoint = NO_ENDPOINT;
  private @Nullable Receiving receiving;

  /** Runs when the memory of the block that is being received is free; null: nobody waits. */
  private @Nullable Runnable released;

  private boolean isClosed;

  UcxPath(Ucx ucx, long worker, byte[] address, UcxFabric.Sleep sleep) {
    this.ucx = ucx;
    this.worker = worker;
    this.address = address;
    this.sleep = sleep;
  }

  @Override
  public byte[] address() {
    return address.clone();
  }

  @Override
  public void connect(byte[] otherAddress) throws IOException {
    endpoint = ucx.createEndpoint(worker, otherAddress);
  }

  @Override
  public void send(long tag, MemorySegment block, Runnable sent) {
    if (endpoint == NO_ENDPOINT) {
      throw new IllegalStateException("the path is not connected");
    }
    sending.add(new Sending(ucx.send(endpoint, block, tag), sent));
  }

  @Override
  public void receive(long tag, MemorySegment into, Runnable received) {
    if (receiving != null) {
      throw new IllegalStateException("the path receives a block already");
    }
    boolean isKept = into.byteSize() > 0;
    receiving = new Receiving(ucx.receive(worker, into, tag), tag, isKept, received);
  }

  @Override
  public void discard(Runnable whenReleased) {
    Receiving now = receiving;
    if (now == null || !now.isKept) {
      whenReleased.run();
      return;
    }
    released = whenReleased;
    // If the block has begun to come, this changes nothing.
    ucx.cancel(worker, now.request);
  }

  @Override
  public int sending() {
    return sending.size();
  }

  // ---- work

  @Override
  public boolean work() throws IOException {
    for (int i = 0; i < ROUNDS_MAX; i++) {
      if (ucx.progress(worker) == 0) {
        break;
      }
    }
    endSent();
    endReceived();
    for (int i = 0; i < ended.size() && !isClosed; i++) {
      ended.get(i).run();
    }
    boolean isMore = !ended.isEmpty();
    ended.clear();
    if (isClosed) {
      return false;
    }
    if (isMore || !ucx.arm(worker)) {
      return true;
    }
    sleep.begin();
    return false;
  }

  private void endSent() throws IOException {
    for (Iterator<Sending> all = sending.iterator(); all.hasNext(); ) {
      Sending one = all.next();
      byte status = ucx.status(one.request);
      if (status == UcxLayouts.IN_PROGRESS) {
        continue;
      }
      ucx.free(one.request);
      all.remove();
      // A block that goes nowhere is cut off by the other side.
      if (status != UcxLayouts.OK && status != UcxLayouts.MESSAGE_TRUNCATED) {
        throw new IOException("UCX can't send a block: " + ucx.words(status));
      }
      ended.add(one.sent);
    }
  }

  private void endReceived() throws IOException {
    Receiving now = receiving;
    if (now == null) {
      return;
    }
    byte status = ucx.status(now.request);
    if (status == UcxLayouts.IN_PROGRESS) {
      return;
    }
    ucx.free(now.request);
    receiving = null;
    Runnable waiting = released;
    if (waiting != null) {
      released = null;
      ended.add(waiting);
      if (status == UcxLayouts.CANCELED) {
        // The message must be taken, or the other side would wait.
        receive(now.tag, MemorySegment.NULL, now.received);
        return;
      }
    }
    if (status == UcxLayouts.OK || (!now.isKept && status == UcxLayouts.MESSAGE_TRUNCATED)) {
      ended.add(now.received);
      return;
    }
    throw new IOException("UCX can't receive a block: " + ucx.words(status));
  }

  // ---- the end

  @Override
  public void close() {
    if (isClosed) {
      return;
    }
    isClosed = true;
    sleep.end();
    List<Long> requests = new ArrayList<>();
    if (endpoint != NO_ENDPOINT) {
      requests.add(ucx.closeEndpoint(endpoint));
    }
    sending.forEach(one -> requests.add(one.request));
    sending.clear();
    Receiving now = receiving;
    if (now != null) {
      ucx.cancel(worker, now.request);
      requests.add(now.request);
      receiving = null;
    }
    end(requests);
    ucx.destroyWorker(worker);
  }

  /** Waits a while for the end of requests. The end of the worker ends the others. */
  private void end(List<Long> requests) {
    long endNs = System.nanoTime() + CLOSE_NS;
    requests.removeIf(this::isEnded);
    while (!requests.isEmpty() && System.nanoTime() - endNs < 0) {
      if (ucx.progress(worker) == 0) {
        LockSupport.parkNanos(CLOSE_REST_NS);
      }
      requests.removeIf(this::isEnded);
    }
  }

  private boolean isEnded(long request) {
    if (ucx.status(request) == UcxLayouts.IN_PROGRESS) {
      return false;
    }
    ucx.free(request);
    return true;
  }
}
