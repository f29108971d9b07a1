package io.kvtier.client.internal.session;

import io.kvtier.client.Keys;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;

/**
 * The client's end of the request ring, and the doorbell beside it. What was written is shown to
 * the daemon together, by {@link #publish}. Under the session's lock.
 */
final class RequestRing {
  private final Wires wires;
  private final MemorySegment region;
  private final RingProducer producer;
  private boolean bellDue;

  RequestRing(Wires wires) {
    this.wires = wires;
    this.region = wires.session().segment();
    this.producer = wires.session().requestProducer();
  }

  /** Writes a record; false when there is no room. */
  boolean write(Request request, long correlationId) throws ProtocolViolation {
    TraceContext context = request.context;
    int flags = request.flags | request.furtherFlags(wires.expects());
    int bytes = request.recordBytes(flags);
    long offset = producer.tryClaim(bytes);
    if (offset < 0) {
      return false;
    }
    Keys keys = request.keys;
    Records.begin(region, offset, bytes, request.verb, flags);
    Words.putByte(region, offset + RequestDescriptor.PRIORITY_OFFSET, request.priority);
    Words.putByte(
        region, offset + RequestDescriptor.KEY_BYTES_OFFSET, keys == null ? 0 : keys.keyBytes());
    Words.putLong(region, offset + RequestDescriptor.CORRELATION_OFFSET, correlationId);
    Words.putLong(region, offset + RequestDescriptor.DEADLINE_OFFSET, request.deadlineNs);
    Words.putInt(region, offset + RequestDescriptor.NAMESPACE_OFFSET, request.namespaceId);
    Words.putShort(region, offset + RequestDescriptor.GROUP_OFFSET, request.group);
    Words.putInt(region, offset + RequestDescriptor.COUNT_OFFSET, request.count);
    Words.putInt(region, offset + RequestDescriptor.DEPTH_OFFSET, request.depth);
    Words.putLong(region, offset + RequestDescriptor.ARGUMENT_OFFSET, request.argument);
    Words.putInt(region, offset + RequestDescriptor.REGION_OFFSET, request.region);
    Words.putShort(region, offset + RequestDescriptor.FIRST_LAYER_OFFSET, request.firstLayer);
    Words.putShort(region, offset + RequestDescriptor.END_LAYER_OFFSET, request.endLayer);
    Words.putInt(region, offset + RequestDescriptor.EVENT_OFFSET, request.event);
    if ((flags & RequestDescriptor.FLAG_EXPECTED) != 0) {
      Words.putInt(region, offset + RequestDescriptor.SHARD_OFFSET, request.expectedNode());
    }
    request.writeBody(region, offset + RequestDescriptor.HEADER_BYTES);
    if (context != null) {
      context.write(region, offset + bytes - RequestDescriptor.CONTEXT_BYTES, System.nanoTime());
    }
    bellDue |= wantsBell(request);
    return true;
  }

  /**
   * Nobody waits for a silent RELEASE: a daemon that sleeps takes it when it next looks, within
   * milliseconds. Damage is told at once.
   */
  private static boolean wantsBell(Request request) {
    return request.verb != Verb.RELEASE
        || (request.flags & RequestDescriptor.FLAG_SILENT) == 0
        || (request.flags & RequestDescriptor.FLAG_CORRUPT) != 0;
  }

  /** Shows the daemon what was written, and wakes it where something of that is urgent. */
  void publish() {
    if (producer.hasUnpublished()) {
      producer.publish();
      if (bellDue) {
        bellDue = false;
        ring();
      }
    }
  }

  /** Wakes the daemon if it sleeps. */
  void ring() {
    Words.fullFence();
    if (wires.daemon().isIndexWaiting()) {
      wires.doorbell().ring();
    }
  }

  /** Whether the daemon has not taken all that it was shown. */
  boolean hasUnread() {
    return Words.getLongAcquire(region, SessionRegionDescriptor.REQUEST_HEAD_OFFSET)
        != Words.getLong(region, SessionRegionDescriptor.REQUEST_TAIL_OFFSET);
  }
}
