package io.kvtier.bench;

import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.directory.HolderTable;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.directory.Partitions;
import io.kvtier.tiers.directory.RunSearch;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;

/**
 * Measures the directory of nodes: the table of one node, full of entries; the messages and rounds
 * of lookups among a thousand nodes, which this process simulates; and the cost of a node that
 * leaves.
 */
final class NodeDirectoryBench {
  private static final int NODES = 1000;
  private static final int BLOCKS = 2048;

  /** The nodes that are asked for the blocks that the directory has found. */
  private static final int HOLDERS_ASKED = 8;

  private static final double MIB = 1 << 20;

  private final int entries;
  private final long tableBytes;
  private final int lookups;

  NodeDirectoryBench(boolean quick) {
    entries = quick ? 1_500_000 : 15_000_000;
    tableBytes = entries * 10L;
    lookups = quick ? 200 : 2000;
  }

  void run(Report report) throws Exception {
    table(report);
    lookups(report);
    changes(report);
  }

  private void table(Report report) throws Exception {
    long[] hashes = new Random(1).longs(entries).toArray();
    long before = Machine.ownMemoryBytes("RssAnon");
    try (HolderTable table = new HolderTable(tableBytes)) {
      long putNs = System.nanoTime();
      for (int i = 0; i < entries; i++) {
        var _ = table.put(hashes[i], 1 + i % NODES, _ -> false);
      }
      putNs = System.nanoTime() - putNs;
      int[] holders = new int[HolderTable.HOLDERS_MAX];
      int found = 0;
      long findNs = System.nanoTime();
      for (long hash : hashes) {
        found += table.find(hash, holders) > 0 ? 1 : 0;
      }
      findNs = System.nanoTime() - findNs;
      long taken = Machine.ownMemoryBytes("RssAnon") - before;
      report.add(
          new Row(
              "table_MiB",
              taken / MIB,
              "MiB",
              "8 bytes an entry",
              (double) entries * Long.BYTES / MIB));
      report.add(Row.plain("table_entries", (double) table.size(), "entries"));
      report.add(Row.plain("table_load", (double) table.size() * 8 / tableBytes, "of 1"));
      report.add(Row.plain("table_lost", entries - found, "entries"));
      report.add(Row.plain("put_ns", (double) putNs / entries, "ns"));
      report.add(Row.plain("find_ns", (double) findNs / entries, "ns"));
    }
  }

  /** Looks long prompts up. Any number of their first blocks is known. */
  private void lookups(Report report) {
    Random random = new Random(2);
    Partitions partitions = partitions(random);
    int[] messages = new int[lookups];
    int rounds = 0;
    for (int i = 0; i < lookups; i++) {
      long[] hashes = random.longs(BLOCKS).toArray();
      int run = random.nextInt(BLOCKS + 1);
      RunSearch search = new RunSearch(BLOCKS);
      int own = 0;
      for (int[] places = search.next(); places.length > 0; places = search.next()) {
        own++;
        Set<Long> owners = new HashSet<>();
        for (int probe = 0; probe < places.length; probe++) {
          owners.add(partitions.owner(Partitions.of(hashes[places[probe]])));
          search.answer(probe, places[probe] < run);
        }
        search.endRound();
        messages[i] += owners.size();
      }
      if (search.run() != run) {
        throw new IllegalStateException("a run of " + run + " was found as " + search.run());
      }
      messages[i] += run == 0 ? 0 : HOLDERS_ASKED;
      rounds = Math.max(rounds, own);
    }
    Arrays.sort(messages);
    report.add(Row.plain("lookup_2048_messages_max", messages[lookups - 1], "messages"));
    report.add(Row.plain("lookup_2048_messages_p50", messages[lookups / 2], "messages"));
    report.add(Row.plain("lookup_2048_rounds_max", rounds, "rounds"));
  }

  private static Partitions partitions(Random random) {
    Partitions partitions = new Partitions();
    for (int i = 0; i < NODES; i++) {
      var _ = partitions.join(random.nextLong() | 1);
    }
    return partitions;
  }

  /** Has one node of a thousand leave, and has an owner note a list. */
  private void changes(Report report) {
    Random random = new Random(3);
    Partitions partitions = partitions(random);
    int movedMax = 0;
    long leaveNs = 0;
    int count = 50;
    for (int i = 0; i < count; i++) {
      long node = partitions.owner(random.nextInt(Partitions.COUNT));
      long began = System.nanoTime();
      BitSet moved = partitions.leave(node);
      leaveNs += System.nanoTime() - began;
      movedMax = Math.max(movedMax, moved.cardinality());
      var _ = partitions.join(node);
    }
    report.add(
        Row.plain("leave_moved_max", 100.0 * movedMax / Partitions.COUNT, "% of partitions"));
    report.add(Row.plain("leave_recompute_ms", leaveNs / 1e6 / count, "ms"));
    report.add(Row.plain("note_partition_us", noteUs(random), "us"));
  }

  /** How long an owner takes to note all entries of one partition of a full table. */
  private double noteUs(Random random) {
    int rounds = 200;
    int ofPartition = Math.max(1, (int) ((long) entries * NODES / Partitions.COUNT));
    try (NodeDirectory directory = new NodeDirectory(1, true, tableBytes)) {
      directory.open();
      long ns = 0;
      for (int i = 0; i < rounds; i++) {
        long[] batch =
            random
                .longs(ofPartition)
                .map(hash -> (hash & HolderTable.HASH_BITS) | ChangeFeed.CAME)
                .toArray();
        long began = System.nanoTime();
        for (int from = 0, sequence = 0; from < batch.length; from += 4096, sequence++) {
          long[] part = Arrays.copyOfRange(batch, from, Math.min(batch.length, from + 4096));
          if (!directory.note(2, this, sequence, part)) {
            throw new IllegalStateException("an announcement was refused");
          }
        }
        ns += System.nanoTime() - began;
        directory.end(2, this);
        directory.advance(directory.buckets());
        directory.advance(directory.buckets());
      }
      return ns / 1e3 / rounds;
    }
  }
}
