package io.kvtier.daemon.index.core;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The daemon's counters, in the shared memory from which clients read them. Written by the index
 * alone, except for the few events that happen on other threads, which are handed over at the next
 * look round.
 */
public final class Counters {
  private final MemorySegment region;
  private final AtomicLong refused = new AtomicLong();
  private final AtomicLong refusedNodes = new AtomicLong();
  private final AtomicLong leftNodes = new AtomicLong();
  private final AtomicLong droppedSpans = new AtomicLong();
  private final AtomicLong keeperRestarts = new AtomicLong();
  private volatile boolean isKept = true;
  private volatile int nodes;

  /** Counters in a daemon region. */
  public Counters(MemorySegment daemonRegion) {
    this.region = daemonRegion;
  }

  public void add(Counter counter, long delta) {
    long at = counter.offset();
    Words.putLongRelease(region, at, Words.getLong(region, at) + delta);
  }

  public void set(Counter counter, long value) {
    Words.putLongRelease(region, counter.offset(), value);
  }

  /** A counter's value. */
  public long get(Counter counter) {
    return Words.getLongAcquire(region, counter.offset());
  }

  /** A connection, a call or a request was not let in; from any thread. */
  public void countRefusal() {
    refused.incrementAndGet();
  }

  /** Another node was refused, or cut off; from any thread. */
  public void countNodeRefusal() {
    refusedNodes.incrementAndGet();
  }

  /** How many other nodes there are; from any thread. */
  public void setNodes(int count) {
    nodes = count;
  }

  /** Another node has left, or is not seen any more; from any thread. */
  public void countNodeLeft() {
    leftNodes.incrementAndGet();
  }

  /** Spans and lines about requests were lost; from any thread. */
  public void countDroppedSpans(int count) {
    droppedSpans.addAndGet(count);
  }

  /** The process that keeps the memory was ended, and another one does now; from any thread. */
  public void countKeeperRestart() {
    keeperRestarts.incrementAndGet();
  }

  /** Whether a process keeps the memory that is to be kept; from any thread. */
  public void setKept(boolean isKept) {
    this.isKept = isKept;
  }

  public void takeOver() {
    set(Counter.KEEPER_RESTARTS, keeperRestarts.get());
    set(Counter.GAUGE_KEEPER_MISSING, isKept ? 0 : 1);
    set(Counter.SPANS_DROPPED, droppedSpans.get());
    set(Counter.SESSIONS_REFUSED, refused.get());
    set(Counter.NODE_REFUSED, refusedNodes.get());
    set(Counter.GAUGE_NODES, nodes);
    set(Counter.NODES_LEFT, leftNodes.get());
  }
}
