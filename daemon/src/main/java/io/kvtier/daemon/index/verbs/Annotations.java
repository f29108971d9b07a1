package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.AnnotationDescriptor;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * ANNOTATE: keeps annotations with blocks that are here or on their way. The first annotation of a
 * block stays: a later put of the block brings an equal one.
 */
public final class Annotations {
  private final Directory directory;
  private final BlockStore store;
  private final CompletionWriter writer;
  private final Counters counters;
  private final MemorySegment body =
      Arena.ofAuto().allocate(AnnotationDescriptor.BODY_BYTES_MAX, Long.BYTES);

  public Annotations(
      Directory directory, BlockStore store, CompletionWriter writer, Counters counters) {
    this.directory = directory;
    this.store = store;
    this.writer = writer;
    this.counters = counters;
  }

  /** Answers with the number of blocks that got an annotation. */
  void annotate(Session session, Request request) throws ProtocolViolation {
    if (request.count > body.byteSize() || (request.count & 7) != 0) {
      throw new ProtocolViolation(
          "ANNOTATE has entries of "
              + request.count
              + " bytes, expected a multiple of 8, at most "
              + body.byteSize());
    }
    // The client can still write to the request: the copy is checked, then used.
    MemorySegment.copy(request.segment, request.body, body, 0, request.count);
    int annotated = 0;
    for (int at = 0; at < request.count; ) {
      int keyBytes = Words.getByte(body, at + AnnotationDescriptor.KEY_BYTES_OFFSET);
      int bytes = Words.getShort(body, at + AnnotationDescriptor.ANNOTATION_BYTES_OFFSET);
      int end = at + Records.annotationEntry(keyBytes, bytes);
      if (keyBytes < 1
          || keyBytes > Protocol.KEY_BYTES_MAX
          || bytes > AnnotationDescriptor.ANNOTATION_BYTES_MAX
          || end > request.count) {
        throw new ProtocolViolation(
            "ANNOTATE has an entry at "
                + at
                + " of "
                + request.count
                + " bytes with a key of "
                + keyBytes
                + " bytes and an annotation of "
                + bytes
                + ", expected 1 to "
                + Protocol.KEY_BYTES_MAX
                + " and at most "
                + AnnotationDescriptor.ANNOTATION_BYTES_MAX);
      }
      annotated += annotate(request, keyBytes, at, bytes) ? 1 : 0;
      at = end;
    }
    writer.completeShort(session, request, Status.OK, annotated);
  }

  private boolean annotate(Request request, int keyBytes, int at, int bytes) {
    int block =
        directory.find(
            request.namespaceId,
            request.group,
            keyBytes,
            body,
            at + AnnotationDescriptor.KEY_OFFSET);
    if (block == Directory.NONE || bytes == 0 || directory.annotations().bytes(block) > 0) {
      return false;
    }
    if (!directory.annotations().set(block, body, at + Records.annotationOffset(keyBytes), bytes)) {
      counters.add(Counter.ANNOTATIONS_DROPPED, 1);
      return false;
    }
    store.annotated(block);
    return true;
  }
}
