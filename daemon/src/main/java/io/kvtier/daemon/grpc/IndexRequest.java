package io.kvtier.daemon.grpc;

import com.google.protobuf.ByteString;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** A request before it is a record; it may be sent several times. */
final class IndexRequest {
  private static final long[] NO_IDS = {};
  private static final int[] NO_CHECKSUMS = {};
  private static final byte[] NO_TEXT = {};

  private final Verb verb;
  private final int flags;
  private final long deadlineNs;

  // Set while the request is made, and not changed any more.
  private int priority = RequestDescriptor.PRIORITY_NORMAL;
  private int namespaceId;
  private int group;
  private int depth;
  private long argument;

  /** The number of a node, with {@link RequestDescriptor#FLAG_EXPECTED}. */
  private int node;

  private @Nullable KeyBatch keys;
  private long[] ids = NO_IDS;
  private byte[] text = NO_TEXT;

  /** The checksum for each id, with {@link RequestDescriptor#FLAG_CHECKSUMS}. */
  private int[] checksums = NO_CHECKSUMS;

  private IndexRequest(Verb verb, int flags, long deadlineNs) {
    this.verb = verb;
    this.flags = flags;
    this.deadlineNs = deadlineNs;
  }

  /** {@code CLOCK_MONOTONIC}; 0: the daemon's default. */
  long deadlineNs() {
    return deadlineNs;
  }

  /** A request without a body. */
  static IndexRequest plain(Verb verb, int namespaceId, long argument, long deadlineNs) {
    int flags = verb == Verb.CANCEL ? RequestDescriptor.FLAG_SILENT : 0;
    IndexRequest request = new IndexRequest(verb, flags, deadlineNs);
    request.namespaceId = namespaceId;
    request.argument = argument;
    return request;
  }

  /** A request for a batch of keys. */
  static IndexRequest ofKeys(Verb verb, KeyBatch keys, int flags, int priority, long deadlineNs) {
    int parent = keys.parent().isEmpty() ? 0 : RequestDescriptor.FLAG_PARENT;
    IndexRequest request = new IndexRequest(verb, flags | parent, deadlineNs);
    request.priority = priority;
    request.namespaceId = keys.namespaceId();
    request.group = keys.group();
    request.depth = keys.depth();
    request.keys = keys;
    return request;
  }

  /**
   * ACQUIRE with a chosen length of the leases.
   *
   * @param expectedFrom the name or the address of the node that is going to have the blocks that
   *     are nowhere yet; empty for none
   */
  static IndexRequest acquire(
      KeyBatch keys, int flags, int priority, long deadlineNs, long leaseNs, String expectedFrom) {
    boolean isExpecting = !expectedFrom.isEmpty();
    int allFlags = flags | (isExpecting ? RequestDescriptor.FLAG_EXPECTED : 0);
    IndexRequest request = ofKeys(Verb.ACQUIRE, keys, allFlags, priority, deadlineNs);
    request.argument = leaseNs;
    request.node = isExpecting ? Records.numberOfNode(expectedFrom) : 0;
    return request;
  }

  /** RETAIN; a lifetime of 0 ends retentions. */
  static IndexRequest retain(KeyBatch keys, long lifetimeNs, long deadlineNs) {
    IndexRequest request =
        ofKeys(Verb.RETAIN, keys, 0, RequestDescriptor.PRIORITY_NORMAL, deadlineNs);
    request.argument = lifetimeNs;
    return request;
  }

  /** COMMIT of blocks, with the checksums that were made during the copies. */
  static IndexRequest commit(long[] ids, int[] checksums) {
    return ofIds(Verb.COMMIT, RequestDescriptor.FLAG_CHECKSUMS, ids, checksums);
  }

  /** ABORT, which is silent. */
  static IndexRequest abort(long... ids) {
    return ofIds(Verb.ABORT, RequestDescriptor.FLAG_SILENT, ids, NO_CHECKSUMS);
  }

  /** RELEASE, which is silent. */
  static IndexRequest release(long... ids) {
    return ofIds(Verb.RELEASE, RequestDescriptor.FLAG_SILENT, ids, NO_CHECKSUMS);
  }

  /** RELEASE of blocks whose bytes did not match. */
  static IndexRequest releaseCorrupt(long... ids) {
    return ofIds(
        Verb.RELEASE,
        RequestDescriptor.FLAG_SILENT | RequestDescriptor.FLAG_CORRUPT,
        ids,
        NO_CHECKSUMS);
  }

  private static IndexRequest ofIds(Verb verb, int flags, long[] ids, int[] checksums) {
    IndexRequest request = new IndexRequest(verb, flags, 0);
    request.ids = ids;
    request.checksums = checksums;
    return request;
  }

  /**
   * REGISTER.
   *
   * @param isReader whether the caller may only read
   */
  static IndexRequest register(byte[] text, long blockBytes, boolean isReader) {
    IndexRequest request = new IndexRequest(Verb.REGISTER, 0, 0);
    request.group = isReader ? Request.REGISTER_FOR_READER : 0;
    request.argument = blockBytes;
    request.text = text;
    return request;
  }

  /**
   * ANNOTATE.
   *
   * @param entries in the layout of {@link io.kvtier.protocol.AnnotationDescriptor}
   */
  static IndexRequest annotate(KeyBatch keys, byte[] entries, long deadlineNs) {
    IndexRequest request = new IndexRequest(Verb.ANNOTATE, 0, deadlineNs);
    request.namespaceId = keys.namespaceId();
    request.group = keys.group();
    request.text = entries;
    return request;
  }

  /** REPORT_LOADS. */
  static IndexRequest reportLoads(int namespaceId, LoadReport report, long deadlineNs) {
    IndexRequest request = new IndexRequest(Verb.REPORT_LOADS, 0, deadlineNs);
    request.namespaceId = namespaceId;
    request.text = report.bytes();
    return request;
  }

  boolean isSilent() {
    return (flags & RequestDescriptor.FLAG_SILENT) != 0;
  }

  private int keyBytes() {
    KeyBatch some = keys;
    return some == null ? 0 : some.keyBytes();
  }

  private int count() {
    KeyBatch some = keys;
    return some == null ? Math.max(ids.length, text.length) : some.count();
  }

  private int flags(@Nullable TraceContext context) {
    return context == null ? flags : flags | RequestDescriptor.FLAG_CONTEXT;
  }

  /** The length of the record with the given trace context. */
  int recordBytes(@Nullable TraceContext context) {
    return Records.request(verb, count(), keyBytes(), flags(context));
  }

  /**
   * Writes the record at its claimed place.
   *
   * @param context the trace context of the request
   * @param submittedNs the time since which the request has waited for its place in the ring
   */
  void write(
      MemorySegment out,
      long at,
      long correlationId,
      @Nullable TraceContext context,
      long submittedNs) {
    int bytes = recordBytes(context);
    Records.begin(out, at, bytes, verb, flags(context));
    Words.putByte(out, at + RequestDescriptor.PRIORITY_OFFSET, priority);
    Words.putByte(out, at + RequestDescriptor.KEY_BYTES_OFFSET, keyBytes());
    Words.putLong(out, at + RequestDescriptor.CORRELATION_OFFSET, correlationId);
    Words.putLong(out, at + RequestDescriptor.DEADLINE_OFFSET, deadlineNs);
    Words.putInt(out, at + RequestDescriptor.NAMESPACE_OFFSET, namespaceId);
    Words.putShort(out, at + RequestDescriptor.GROUP_OFFSET, group);
    Words.putInt(out, at + RequestDescriptor.COUNT_OFFSET, count());
    Words.putInt(out, at + RequestDescriptor.DEPTH_OFFSET, depth);
    Words.putLong(out, at + RequestDescriptor.ARGUMENT_OFFSET, argument);
    Words.putInt(out, at + RequestDescriptor.SHARD_OFFSET, node);
    long body = at + RequestDescriptor.HEADER_BYTES;
    KeyBatch some = keys;
    if (some != null) {
      writeKeys(out, body, some);
    }
    for (int i = 0; i < ids.length; i++) {
      Words.putLong(out, body, ids[i]);
      if (checksums.length > 0) {
        Words.putInt(out, body + 8, checksums[i]);
        Words.putInt(out, body + 12, 0);
      }
      body += Records.idStride(flags);
    }
    MemorySegment.copy(MemorySegment.ofArray(text), 0, out, body, text.length);
    if (context != null) {
      context.write(out, at + bytes - RequestDescriptor.CONTEXT_BYTES, submittedNs);
    }
  }

  private static void writeKeys(MemorySegment out, long body, KeyBatch keys) {
    int stride = Records.keyStride(keys.keyBytes());
    long at = body;
    if (!keys.parent().isEmpty()) {
      writeKey(out, at, stride, keys.parent());
      at += stride;
    }
    for (ByteString key : keys.keys()) {
      writeKey(out, at, stride, key);
      at += stride;
    }
  }

  private static void writeKey(MemorySegment out, long at, int stride, ByteString key) {
    Words.putLong(out, at + stride - 8, 0); // what follows a key up to its stride is zero
    MemorySegment.copy(MemorySegment.ofBuffer(key.asReadOnlyByteBuffer()), 0, out, at, key.size());
  }
}
