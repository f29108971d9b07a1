package io.kvtier.daemon.grpc;

import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;

/** A completion, taken off the ring. */
final class IndexAnswer {
  private static final int[] NO_BLOCKS = {};
  private static final Grant[] NO_GRANTS = {};
  private static final Grant NO_GRANT = new Grant(0, 0, 0, 0, 0);

  private final Status status;
  private final String text;
  private final int run;
  private final long value;

  /** The status of each block and, from bit 16, its tier. */
  private final int[] packed;

  /** The lease or reservation of each block; only for ACQUIRE and RESERVE. */
  private final Grant[] grants;

  private IndexAnswer(
      Status status, String text, int run, long value, int[] packed, Grant[] grants) {
    this.status = status;
    this.text = text;
    this.run = run;
    this.value = value;
    this.packed = packed;
    this.grants = grants;
  }

  /** A lease or a reservation: a slot. Its id is 0 when there is none. */
  record Grant(long id, int slab, int length, long offset, int checksum) {}

  /** An answer that did not come from the index. */
  static IndexAnswer refusal(Status status, String text) {
    return new IndexAnswer(status, text, 0, 0, NO_BLOCKS, NO_GRANTS);
  }

  static IndexAnswer read(MemorySegment in, long at) {
    Status status = Status.of(Words.getShort(in, at + CompletionDescriptor.STATUS_OFFSET));
    int flags = Words.getShort(in, at + CompletionDescriptor.FLAGS_OFFSET);
    int count = Words.getInt(in, at + CompletionDescriptor.COUNT_OFFSET);
    int run = Words.getInt(in, at + CompletionDescriptor.RUN_OFFSET);
    long value = Words.getLong(in, at + CompletionDescriptor.VALUE_OFFSET);
    long body = at + CompletionDescriptor.HEADER_BYTES;
    if ((flags & CompletionDescriptor.FLAG_TEXT) != 0) {
      byte[] utf8 = new byte[count];
      MemorySegment.copy(in, body, MemorySegment.ofArray(utf8), 0, count);
      return new IndexAnswer(
          status, new String(utf8, StandardCharsets.UTF_8), run, value, NO_BLOCKS, NO_GRANTS);
    }
    Verb verb = Verb.of(Words.getShort(in, at + CompletionDescriptor.VERB_OFFSET));
    int stride = verb == null ? CompletionDescriptor.SHORT_RESULT_BYTES : Records.result(verb);
    boolean granted = stride == CompletionDescriptor.LONG_RESULT_BYTES;
    int[] packed = new int[count];
    Grant[] grants = granted ? new Grant[count] : NO_GRANTS;
    for (int i = 0; i < count; i++, body += stride) {
      packed[i] = Words.getInt(in, body);
      if (granted) {
        grants[i] =
            new Grant(
                Words.getLong(in, body + CompletionDescriptor.BLOCK_ID_OFFSET),
                Words.getInt(in, body + CompletionDescriptor.BLOCK_SLAB_OFFSET),
                Words.getInt(in, body + CompletionDescriptor.BLOCK_LENGTH_OFFSET),
                Words.getLong(in, body + CompletionDescriptor.BLOCK_OFFSET_OFFSET),
                Words.getInt(in, body + CompletionDescriptor.BLOCK_CHECKSUM_OFFSET));
      }
    }
    return new IndexAnswer(status, "", run, value, packed, grants);
  }

  Status status() {
    return status;
  }

  /** An explanation, or an answer in JSON. */
  String text() {
    return text;
  }

  /** How many blocks from the first are OK. */
  int run() {
    return run;
  }

  /** The value of the completion, whose meaning depends on the verb. */
  long value() {
    return value;
  }

  /** The count of blocks with a result. */
  int count() {
    return packed.length;
  }

  /** The slot granted for a block, with id 0 if there is none; only for ACQUIRE and RESERVE. */
  Grant grant(int i) {
    return i < grants.length ? grants[i] : NO_GRANT;
  }

  Status blockStatus(int i) {
    return Status.of(packed[i] & 0xffff);
  }

  TierId blockTier(int i) {
    return TierId.of(packed[i] >>> 16 & 0xff);
  }

  /** The ids of a batch's grants, 0 where there is none. */
  long[] grantIds(int count) {
    long[] ids = new long[count];
    for (int i = 0; i < count; i++) {
      ids[i] = grant(i).id();
    }
    return ids;
  }
}
