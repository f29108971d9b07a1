package io.kvtier.bench;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.ObjectCounter;
import io.kvtier.tiers.object.ObjectNames;
import io.kvtier.tiers.object.ObjectPipeline;
import io.kvtier.tiers.object.ObjectPipelineOptions;
import io.kvtier.tiers.object.S3ObjectStore;
import io.kvtier.tiers.object.S3Options;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Compares the object tier's pipeline with the bare client: same server, blocks and number of calls
 * at a time. Only the pipeline makes and checks headers and checksums.
 */
final class ObjectBench {
  private static final int CONCURRENCY = 8;
  private static final long WORKING_SET_BYTES = 64 << 20;
  private static final int[] BLOCK_BYTES = {2 << 20, 128 << 10};
  private static final double GB = 1e9;

  private final S3ProxyProcess server;
  private final Report report;
  private final boolean quick;

  ObjectBench(S3ProxyProcess server, Report report, boolean quick) {
    this.server = server;
    this.report = report;
    this.quick = quick;
  }

  void run() throws Exception {
    try (BareS3 bare = new BareS3(server, CONCURRENCY)) {
      bare.createBucket();
      for (int blockBytes : BLOCK_BYTES) {
        try (Blocks blocks = new Blocks(bare, blockBytes)) {
          Rounds measured = Rounds.measure(quick ? 2 : 4, quick ? 3 : 11, blocks::pass);
          String size =
              blockBytes >= 1 << 20 ? (blockBytes >> 20) + "MiB" : (blockBytes >> 10) + "KiB";
          for (String way : new String[] {"get", "put"}) {
            String limit = "bare S3AsyncClient, " + CONCURRENCY + " calls at a time";
            report.add(
                new Row(
                    "object_" + way + "_" + size + "_gbps",
                    measured.median(way),
                    "GB/s",
                    limit,
                    measured.median("bare_" + way)));
          }
          report.add(
              new Row(
                  "object_" + size + "_requests_per_gb",
                  measured.median("requests_per_gb"),
                  "1/GB",
                  "one a block",
                  GB / blockBytes));
        }
      }
    }
  }

  /** Blocks of one size, and all that moves them. */
  private final class Blocks implements AutoCloseable {
    private final BareS3 bare;
    private final int blockBytes;
    private final int count;
    private final Arena arena = Arena.ofShared();
    private final MemorySegment source;
    private final MemorySegment target;
    private final Semaphore bell = new Semaphore(0);
    private final S3ObjectStore store;
    private final ObjectPipeline pipeline;
    private int pass;

    Blocks(BareS3 bare, int blockBytes) {
      this.bare = bare;
      this.blockBytes = blockBytes;
      count = (int) (WORKING_SET_BYTES / blockBytes);
      source = arena.allocate(WORKING_SET_BYTES, 4096);
      target = arena.allocate(WORKING_SET_BYTES, 4096);
      byte[] random = new byte[(int) WORKING_SET_BYTES];
      new Random(1).nextBytes(random);
      source.copyFrom(MemorySegment.ofArray(random));
      store =
          new S3ObjectStore(
              S3Options.of(server.endpoint(), "us-east-1", S3ProxyProcess.BUCKET),
              server.credentials());
      ObjectPipelineOptions usual = ObjectPipelineOptions.defaults();
      pipeline =
          new ObjectPipeline(
              "object-bench",
              store,
              new ObjectPipelineOptions(
                  usual.capacity(),
                  usual.codec(),
                  new ObjectPipelineOptions.Times(
                      TimeUnit.SECONDS.toNanos(60), TimeUnit.SECONDS.toNanos(60), 0),
                  ObjectPipelineOptions.Calls.fixed(CONCURRENCY),
                  usual.bandwidth(),
                  usual.breaker(),
                  usual.retry()),
              null,
              bell::release,
              thrown -> {
                throw new IllegalStateException("the pipeline broke", thrown);
              });
    }

    void pass(Rounds into) throws Exception {
      pass++;
      double bytes = WORKING_SET_BYTES;
      long callsBefore = pipeline.count(ObjectCounter.CALLS);
      boolean bareFirst = pass % 2 == 0;
      for (boolean bareNow : new boolean[] {bareFirst, !bareFirst}) {
        into.add(bareNow ? "bare_put" : "put", bytes / (bareNow ? barePut() : move(true)));
      }
      for (boolean bareNow : new boolean[] {bareFirst, !bareFirst}) {
        target.fill((byte) 0);
        into.add(bareNow ? "bare_get" : "get", bytes / (bareNow ? bareGet() : move(false)));
        if (source.mismatch(target) != -1) {
          throw new IllegalStateException("what was got is not what was put");
        }
      }
      long calls = pipeline.count(ObjectCounter.CALLS) - callsBefore;
      into.add("requests_per_gb", calls / (2 * bytes / GB));
      var _ = bare.run(count, i -> bare.delete(bareName(i)));
      var _ = bare.run(count, i -> bare.delete(name(transfer(i, Transfer.Kind.LOAD))));
    }

    private String bareName(int block) {
      return "bare/" + block;
    }

    private long barePut() throws InterruptedException {
      return bare.run(
          count,
          i ->
              bare.put(
                  bareName(i), source.asSlice((long) i * blockBytes, blockBytes).asByteBuffer()));
    }

    private long bareGet() throws InterruptedException {
      return bare.run(
          count,
          i ->
              bare.get(
                  bareName(i),
                  0,
                  target.asSlice((long) i * blockBytes, blockBytes).asByteBuffer()));
    }

    private Transfer transfer(int block, Transfer.Kind kind) {
      Transfer transfer = new Transfer(block);
      transfer.kind = kind;
      transfer.key[0] = (byte) block;
      transfer.key[1] = (byte) (block >>> 8);
      transfer.keyBytes = 32;
      transfer.slab = kind == Transfer.Kind.STORE ? source : target;
      transfer.slabOffset = (long) block * blockBytes;
      transfer.length = blockBytes;
      transfer.slotBytes = blockBytes;
      return transfer;
    }

    private String name(Transfer transfer) {
      return ObjectNames.ofBlock(0, 0, transfer.key, transfer.keyBytes, transfer.group);
    }

    /** All blocks through the pipeline, one way; returns how long it took, in ns. */
    private long move(boolean out) throws InterruptedException {
      Transfer[] transfers = new Transfer[count];
      for (int i = 0; i < count; i++) {
        transfers[i] = transfer(i, out ? Transfer.Kind.STORE : Transfer.Kind.LOAD);
        if (out) {
          // Made when the block was accepted, not when it is stored.
          transfers[i].checksum = Checksums.of(transfers[i].bytes());
        }
      }
      int offered = 0;
      int finished = 0;
      long begun = System.nanoTime();
      while (finished < count) {
        while (offered < count && pipeline.offer(transfers[offered])) {
          offered++;
        }
        bell.acquire();
        bell.drainPermits();
        finished += pipeline.collect(Blocks::requireOk);
      }
      return System.nanoTime() - begun;
    }

    private static void requireOk(Transfer transfer) {
      if (transfer.status != Status.OK) {
        throw new IllegalStateException(
            transfer.kind + " of block " + transfer.poolIndex + " ended as " + transfer.status);
      }
    }

    @Override
    public void close() {
      pipeline.close();
      store.close();
      arena.close();
    }
  }
}
