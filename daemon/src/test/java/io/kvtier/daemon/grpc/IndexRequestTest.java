package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

final class IndexRequestTest {
  private static MemorySegment written(IndexRequest request) {
    return written(request, null);
  }

  private static MemorySegment written(IndexRequest request, @Nullable TraceContext context) {
    MemorySegment record = MemorySegment.ofArray(new long[request.recordBytes(context) / 8]);
    record.fill((byte) -1);
    request.write(record, 0, 17, context, 23);
    assertEquals(
        request.recordBytes(context), Words.getInt(record, RequestDescriptor.RECORD_BYTES_OFFSET));
    assertEquals(17, Words.getLong(record, RequestDescriptor.CORRELATION_OFFSET));
    return record;
  }

  @Test
  void commit_bringsAChecksumWithEachId() {
    IndexRequest request = IndexRequest.commit(new long[] {5, 6}, new int[] {-7, 8});

    MemorySegment record = written(request);

    assertFalse(request.isSilent());
    assertEquals(Verb.COMMIT.code(), Words.getShort(record, RequestDescriptor.VERB_OFFSET));
    assertEquals(
        RequestDescriptor.FLAG_CHECKSUMS, Words.getShort(record, RequestDescriptor.FLAGS_OFFSET));
    assertEquals(2, Words.getInt(record, RequestDescriptor.COUNT_OFFSET));
    long body = RequestDescriptor.HEADER_BYTES;
    assertEquals(5, Words.getLong(record, body));
    assertEquals(0xffff_fff9L, Words.getLong(record, body + 8));
    assertEquals(6, Words.getLong(record, body + 16));
    assertEquals(8, Words.getLong(record, body + 24));
    assertEquals(body + 32, record.byteSize());
  }

  @Test
  void acquire_ofExpectedBlocks_namesTheirNode() {
    KeyBatch keys =
        new KeyBatch(5, 0, List.of(ByteString.copyFrom(new byte[8])), 8, ByteString.EMPTY, 0);

    MemorySegment expecting = written(IndexRequest.acquire(keys, 0, 0, 1, 2, "node-1"));
    MemorySegment other = written(IndexRequest.acquire(keys, 0, 0, 1, 2, ""));

    assertEquals(
        RequestDescriptor.FLAG_EXPECTED, Words.getShort(expecting, RequestDescriptor.FLAGS_OFFSET));
    assertEquals(
        Records.numberOfNode("node-1"), Words.getInt(expecting, RequestDescriptor.SHARD_OFFSET));
    assertEquals(0, Words.getShort(other, RequestDescriptor.FLAGS_OFFSET));
    assertEquals(0, Words.getInt(other, RequestDescriptor.SHARD_OFFSET));
  }

  @Test
  void write_again_knowsNothingOfTheContextBefore() {
    IndexRequest request = IndexRequest.register(new byte[8], 4096, false);
    TraceContext context = new TraceContext(1, 2, 3, TraceContext.FLAG_SAMPLED);

    MemorySegment within = written(request, context);
    MemorySegment without = written(request);

    assertEquals(
        RequestDescriptor.FLAG_CONTEXT, Words.getShort(within, RequestDescriptor.FLAGS_OFFSET));
    assertEquals(
        23, Words.getLong(within, without.byteSize() + RequestDescriptor.CONTEXT_WRITTEN_OFFSET));
    assertEquals(0, Words.getShort(without, RequestDescriptor.FLAGS_OFFSET));
    assertEquals(RequestDescriptor.CONTEXT_BYTES, within.byteSize() - without.byteSize());
  }

  @Test
  void releaseCorrupt_saysWhyAndIsSilent() {
    IndexRequest request = IndexRequest.releaseCorrupt(9);

    MemorySegment record = written(request);

    assertTrue(request.isSilent());
    assertEquals(Verb.RELEASE.code(), Words.getShort(record, RequestDescriptor.VERB_OFFSET));
    assertEquals(
        RequestDescriptor.FLAG_SILENT | RequestDescriptor.FLAG_CORRUPT,
        Words.getShort(record, RequestDescriptor.FLAGS_OFFSET));
    assertEquals(9, Words.getLong(record, RequestDescriptor.HEADER_BYTES));
  }
}
