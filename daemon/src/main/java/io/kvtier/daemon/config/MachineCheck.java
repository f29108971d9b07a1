package io.kvtier.daemon.config;

import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.policies.EvictionPolicies;
import io.kvtier.tiers.files.ByteSize;
import java.io.IOException;
import java.nio.file.FileStore;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntToLongFunction;
import java.util.function.ToLongFunction;
import java.util.stream.IntStream;

/** Checks a configuration against its machine: memory and disks must be large enough. */
public final class MachineCheck {
  /**
   * Number of policies' ids that fit a heap of the usual size. The memory of more ids, or in a
   * smaller heap, is measured, which takes a moment.
   */
  private static final long POLICY_IDS_GIVEN = 1 << 21;

  private static final long HEAP_BYTES_GIVEN = 768L << 20;

  /** Heap of an idle daemon, without directory and policies. */
  private static final long OTHER_HEAP_BYTES = 64L << 20;

  private static final int SLOT_BYTES_MIN = 4096;

  /** Heap of the policies for each block, if it is not measured. */
  private static final long POLICY_BLOCK_BYTES = 16;

  private final long memoryBytes;
  private final String memoryName;
  private final long heapBytes;
  private final IntToLongFunction directoryBytes;

  /**
   * A check against a machine.
   *
   * @param memoryBytes all memory that the daemon may have
   * @param memoryName the name of the limit that sets it
   * @param heapBytes the maximum size of the Java heap
   * @param directoryBytes the size of the directory for a number of blocks
   */
  MachineCheck(
      long memoryBytes, String memoryName, long heapBytes, IntToLongFunction directoryBytes) {
    this.memoryBytes = memoryBytes;
    this.memoryName = memoryName;
    this.heapBytes = heapBytes;
    this.directoryBytes = directoryBytes;
  }

  /**
   * A check against this machine and the control group of this process.
   *
   * @param directoryBytes the size of the directory for a number of blocks
   */
  public static MachineCheck ofThisMachine(IntToLongFunction directoryBytes) {
    long machine = MachineMemory.totalBytes();
    long group = MachineMemory.groupBytes();
    long heap = Runtime.getRuntime().maxMemory();
    return group > 0 && group < machine
        ? new MachineCheck(group, "the memory limit of the control group", heap, directoryBytes)
        : new MachineCheck(machine, "this machine's memory", heap, directoryBytes);
  }

  /**
   * The keys that do not fit the machine: each problem names the key, its place and a value that
   * fits.
   */
  public List<String> problems(LoadedConfig loaded) {
    List<String> problems = new ArrayList<>();
    KvtierdConfig config = loaded.config();
    long policies = policyBytes(config);
    heap(loaded, config, policies, problems);
    memory(loaded, config, policies, problems);
    disks(loaded, config, problems);
    return problems;
  }

  /**
   * The heap of the eviction policies: each tenant has one policy in each tier in which it has
   * space. 0 if the memory is too small to be measured.
   */
  private long policyBytes(KvtierdConfig config) {
    List<Long> host =
        shares(config, config.tiers().host().memory().bytes(), TenantConfig::hostBytes);
    List<Long> ssd = shares(config, config.tiers().ssd().space().bytes(), TenantConfig::ssdBytes);
    long ids =
        (host.stream().filter(bytes -> bytes > 0).count()
                + ssd.stream().filter(bytes -> bytes > 0).count())
            * config.limits().blocksMax();
    return ids <= POLICY_IDS_GIVEN && heapBytes >= HEAP_BYTES_GIVEN
        ? 0
        : policyBytes(config, config.tiers().host().policy(), host)
            + policyBytes(config, config.tiers().ssd().policy(), ssd);
  }

  /**
   * The bytes of each tenant in a tier, by the tenant's number; the first number is for users
   * without a tenant.
   */
  private static List<Long> shares(
      KvtierdConfig config, long bytes, ToLongFunction<TenantConfig> bytesOf) {
    List<Long> shares = new ArrayList<>();
    config.tenants().forEach(tenant -> shares.add(bytesOf.applyAsLong(tenant)));
    shares.addFirst(bytes - shares.stream().mapToLong(Long::longValue).sum());
    return shares;
  }

  private static long policyBytes(KvtierdConfig config, String policy, List<Long> shares) {
    int blocks = config.limits().blocksMax();
    TenantShares records = TenantShares.of(config.tenants());
    int[] capacities =
        IntStream.range(0, shares.size())
            .filter(tenant -> shares.get(tenant) > 0)
            .map(tenant ->
                Math.clamp(shares.get(tenant) / SLOT_BYTES_MIN, 1, records.shareOf(blocks, tenant)))
            .toArray();
    return EvictionPolicies.estimateBytes(policy, blocks, capacities);
  }

  /**
   * Checks the heap: one that is too small would end the daemon at its start, or at any time later.
   */
  private void heap(
      LoadedConfig loaded, KvtierdConfig config, long policies, List<String> problems) {
    long needed = policies + OTHER_HEAP_BYTES;
    if (needed > HeapRoom.usable(heapBytes)) {
      int tenants = config.tenants().size();
      problems.add(
          problem(
              loaded,
              "limits.blocks",
              "less, or a larger Java heap (KVTIERD_JAVA_OPTS=-Xmx...): the eviction policies"
                  + (tenants > 0 ? " of " + tenants + " tenants, and of all others," : "")
                  + " (host.policy, ssd.policy) take "
                  + ByteSize.words(policies)
                  + ", all else "
                  + ByteSize.words(OTHER_HEAP_BYTES)
                  + " and more, and the heap is "
                  + ByteSize.words(heapBytes)));
    }
  }

  private void memory(
      LoadedConfig loaded, KvtierdConfig config, long policies, List<String> problems) {
    if (memoryBytes <= 0) {
      return;
    }
    long host = config.tiers().host().memory().bytes();
    if (host > memoryBytes) {
      problems.add(
          problem(
              loaded,
              "host.bytes",
              "at most "
                  + ByteSize.words(memoryBytes)
                  + ", which is "
                  + memoryName
                  + "; leave room for the engines, too"));
      return;
    }
    Map<String, Long> parts = new LinkedHashMap<>();
    parts.put("host.bytes", host);
    int blocks = config.limits().blocksMax();
    parts.put(
        "limits.blocks",
        directoryBytes.applyAsLong(blocks)
            + (policies > 0 ? policies : POLICY_BLOCK_BYTES * blocks));
    parts.put("limits.annotation_bytes", config.annotationBytes());
    if (!(config.tiers().object().place() instanceof KvtierdConfig.ObjectPlace.None)) {
      parts.put("object.presence_bytes", config.tiers().object().presence().bytesMax());
      parts.put("object.spill_bytes", config.tiers().object().uploads().spillBytes());
    }
    KvtierdConfig.EventsConfig events = config.reports().events();
    if (events != null) {
      parts.put("events.queue_bytes", events.buffers().queueBytes());
      parts.put("events.replay_bytes", events.buffers().replayBytes());
    }
    long sum = parts.values().stream().mapToLong(Long::longValue).sum();
    if (sum > memoryBytes) {
      StringBuilder words = new StringBuilder();
      parts.forEach((key, bytes) -> {
        words.append(words.isEmpty() ? "" : " + ").append(key).append(' ');
        words.append(ByteSize.words(bytes));
      });
      problems.add(
          problem(
              loaded,
              "host.bytes",
              "less: with what else takes memory ("
                  + words
                  + ") it is "
                  + ByteSize.words(sum)
                  + ", and "
                  + memoryName
                  + " is "
                  + ByteSize.words(memoryBytes)));
    }
  }

  private static void disks(LoadedConfig loaded, KvtierdConfig config, List<String> problems) {
    KvtierdConfig.SsdConfig ssd = config.tiers().ssd();
    if (ssd.space().bytes() == 0) {
      return;
    }
    for (DiskShare share : DiskShare.of(ssd)) {
      long total = total(share.store());
      if (total > 0 && share.bytes() > total) {
        problems.add(
            problem(
                loaded,
                "ssd.bytes",
                "at most "
                    + ByteSize.words(total)
                    + " in '"
                    + share.directories().getFirst()
                    + "': the whole file system is no larger; lower it, or choose another"
                    + " ssd.directory"));
      }
    }
  }

  private static long total(FileStore store) {
    try {
      return store.getTotalSpace();
    } catch (IOException e) {
      return 0;
    }
  }

  private static String problem(LoadedConfig loaded, String key, String expected) {
    String where = loaded.where(key);
    return (where.equals("default") ? "" : where + ": ")
        + key
        + " is '"
        + loaded.text(key)
        + "'"
        + (where.equals("default") ? " by default" : "")
        + ", expected "
        + expected;
  }
}
