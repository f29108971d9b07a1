package io.kvtier.daemon.events;

import io.kvtier.daemon.index.report.EventRecordDescriptor;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** A record of the index's ring, taken out of it. A flyweight. */
final class EventRecord {
  private static final int ANNOTATION_BYTES_MAX = 2048;

  final byte[] key = new byte[Protocol.KEY_BYTES_MAX];
  final byte[] annotation = new byte[ANNOTATION_BYTES_MAX];
  int kind;
  int tiers;
  int keyBytes;
  int namespaceId;
  int group;
  int annotationBytes;
  long sequence;

  void read(MemorySegment memory, long at) {
    kind = Words.getByte(memory, at + EventRecordDescriptor.KIND_OFFSET);
    tiers = Words.getByte(memory, at + EventRecordDescriptor.TIERS_OFFSET);
    keyBytes = Words.getByte(memory, at + EventRecordDescriptor.KEY_BYTES_OFFSET);
    sequence = Words.getLong(memory, at + EventRecordDescriptor.SEQUENCE_OFFSET);
    namespaceId = Words.getInt(memory, at + EventRecordDescriptor.NAMESPACE_OFFSET);
    group = Words.getShort(memory, at + EventRecordDescriptor.GROUP_OFFSET);
    annotationBytes = Words.getShort(memory, at + EventRecordDescriptor.ANNOTATION_BYTES_OFFSET);
    MemorySegment.copy(
        memory, ValueLayout.JAVA_BYTE, at + EventRecordDescriptor.KEY_OFFSET, key, 0, key.length);
    MemorySegment.copy(
        memory,
        ValueLayout.JAVA_BYTE,
        at + EventRecordDescriptor.ANNOTATION_OFFSET,
        annotation,
        0,
        annotationBytes);
  }
}
