package io.kvtier.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.LoadedConfig.Entry;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.policies.EvictionPolicies;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where values come from, what others may see of them, and whether a machine can hold them. */
final class ConfigSourceTest {
  private static final long GIB = 1L << 30;

  @TempDir private Path folder;

  private static LoadedConfig load(Path file, Map<String, String> environment, String... settings)
      throws ConfigException {
    return new ConfigSource(file, environment, List.of(settings)).load();
  }

  private Path file(String yaml) throws IOException {
    return Files.writeString(folder.resolve("k.yaml"), yaml);
  }

  private static Entry entry(LoadedConfig loaded, String key) {
    return loaded.entries().stream()
        .filter(entry -> entry.key().equals(key))
        .findFirst()
        .orElseThrow();
  }

  @Test
  void load_eachLayer_isOverTheOneBelowAndNamed() throws ConfigException, IOException {
    Path file = file("host:\n  bytes: 256MiB\n  policy: fifo\nssd:\n  bytes: 0\n");
    LoadedConfig loaded =
        load(
            file,
            Map.of("KVTIERD_HOST_POLICY", "sieve", "KVTIERD_HOST_BYTES", "512MiB", "HOME", "/"),
            "host.bytes=128MiB");
    assertEquals(128L << 20, loaded.config().tiers().host().memory().bytes());
    assertEquals("sieve", loaded.config().tiers().host().policy());
    assertEquals("--set", entry(loaded, "host.bytes").from());
    assertEquals("environment KVTIERD_HOST_POLICY", entry(loaded, "host.policy").from());
    assertEquals(file + ", line 5", entry(loaded, "ssd.bytes").from());
    assertEquals("default", entry(loaded, "host.slab_bytes").from());
    assertEquals(
        List.of("host.bytes", "host.policy", "ssd.bytes"),
        loaded.entries().stream().filter(Entry::differs).map(Entry::key).toList());
  }

  @Test
  void load_variableThatNamesNoKey_isRefusedWithASuggestion() {
    ConfigException e =
        assertThrows(
            ConfigException.class,
            () -> new ConfigSource(null, Map.of("KVTIERD_HOST_BYTS", "1GiB"), List.of()).load());
    assertEquals(
        "environment KVTIERD_HOST_BYTS: unknown key 'host.byts'; did you mean 'host.bytes'?",
        e.getMessage());
  }

  @Test
  void load_variablesOfTheStart_areLeftAlone() throws ConfigException {
    LoadedConfig loaded =
        new ConfigSource(null, Map.of("KVTIERD_JAVA_OPTS", "-Xmx1g"), List.of()).load();
    assertTrue(loaded.entries().stream().noneMatch(Entry::differs));
  }

  @Test
  void entries_secrets_areHidden() throws ConfigException, IOException {
    Path file =
        file(
            """
            object:
              store: s3
              s3:
                bucket: b
                endpoint: http://localhost:9000
                proxy: http://joe:hunter2@proxy:3128
              encryption:
                key_command: [fetch, --token, hunter2]
            """);
    LoadedConfig loaded = load(file, Map.of());
    assertFalse(loaded.entries().toString().contains("hunter2"), "a secret is shown");
    assertEquals("http://(hidden)@proxy:3128", entry(loaded, "object.s3.proxy").value());
    assertEquals("http://localhost:9000", entry(loaded, "object.s3.endpoint").value());
    assertTrue(entry(loaded, "object.s3.proxy").differs());
  }

  @Test
  void changedFrom_andTaking_areByKey() throws ConfigException, IOException {
    LoadedConfig before = load(file("host:\n  policy: lru\n"), Map.of());
    LoadedConfig after = load(file("\nhost:\n  policy: fifo\n  bytes: 2GiB\n"), Map.of());
    assertEquals(List.of("host.bytes", "host.policy"), after.changedFrom(before));
    LoadedConfig merged = before.taking(Set.of("host.policy"), after);
    assertEquals("fifo", merged.text("host.policy"));
    assertEquals("1GiB", merged.text("host.bytes"));
    assertEquals(List.of("host.bytes"), after.changedFrom(merged));
  }

  private static MachineCheck check(long memoryBytes, String memoryName, long heapBytes) {
    return new MachineCheck(
        memoryBytes, memoryName, heapBytes, blocks -> Directory.metadataBytesFor(blocks, 2));
  }

  @Test
  void machine_tooSmallForTheHostTier_isToldWithFileLineAndKey()
      throws ConfigException, IOException {
    Path file = file("host:\n  bytes: 64GiB\n");
    List<String> problems =
        check(8 * GIB, "this machine's memory", GIB).problems(load(file, Map.of()));
    assertEquals(
        List.of(
            file
                + ", line 2: host.bytes is '64GiB', expected at most 8 GiB, which is this machine's"
                + " memory; leave room for the engines, too"),
        problems);
  }

  @Test
  void machine_tooSmallForTheSum_isToldWithItsParts() throws ConfigException {
    LoadedConfig loaded =
        new ConfigSource(null, Map.of(), List.of("host.bytes=7GiB", "limits.annotation_bytes=1GiB"))
            .load();
    List<String> problems = check(8 * GIB, "the group's memory.max", GIB).problems(loaded);
    assertEquals(1, problems.size(), problems.toString());
    assertTrue(problems.getFirst().startsWith("--set: host.bytes is '7GiB'"), problems.toString());
    assertTrue(problems.getFirst().contains("limits.annotation_bytes 2 GiB"), problems.getFirst());
    assertEquals(List.of(), check(16 * GIB, "memory", GIB).problems(loaded));
  }

  @Test
  void machine_policiesOfTenantsBeyondTheHeap_areTold() throws ConfigException {
    StringBuilder tenants = new StringBuilder("tenants=");
    for (int i = 0; i < 15; i++) {
      tenants.append(i == 0 ? "" : ",").append("name=t").append(i).append(" host_bytes=64MiB");
    }
    List<String> settings =
        List.of("host.bytes=1GiB", "host.policy=forecast", "ssd.bytes=0", tenants.toString());
    LoadedConfig loaded = new ConfigSource(null, Map.of(), settings).load();
    List<String> problems = check(1L << 50, "memory", GIB / 4).problems(loaded);
    assertEquals(1, problems.size(), problems.toString());
    assertTrue(problems.getFirst().contains("limits.blocks is '"), problems.getFirst());
    assertTrue(problems.getFirst().contains("of 15 tenants, and of all others,"), "whose");
    assertEquals(List.of(), check(1L << 50, "memory", 8 * GIB).problems(loaded));
    LoadedConfig alone = new ConfigSource(null, Map.of(), settings.subList(0, 3)).load();
    assertEquals(List.of(), check(1L << 50, "memory", GIB / 4).problems(alone));
  }

  /** Fewer blocks than are measured in a usual heap; a smaller one would end the daemon later. */
  @Test
  void machine_policiesBeyondASmallHeap_areTold() throws ConfigException {
    LoadedConfig usual = new ConfigSource(null, Map.of(), List.of("ssd.bytes=4GiB")).load();
    assertEquals(List.of(), check(1L << 50, "memory", 256L << 20).problems(usual));
    List<String> problems = check(1L << 50, "memory", 192L << 20).problems(usual);
    assertEquals(1, problems.size(), problems.toString());
    assertTrue(problems.getFirst().contains("KVTIERD_JAVA_OPTS=-Xmx"), problems.getFirst());
    LoadedConfig auto =
        new ConfigSource(null, Map.of(), List.of("host.policy=auto", "ssd.policy=auto")).load();
    assertEquals(1, check(1L << 50, "memory", 192L << 20).problems(auto).size());
    assertEquals(List.of(), check(1L << 50, "memory", GIB).problems(auto));
  }

  /** None of many has more records than its share, however much memory it has. */
  @Test
  void machine_policiesOfManyTenantsWithMuchMemory_areThoseOfTheirShares() throws ConfigException {
    StringBuilder tenants = new StringBuilder("tenants=");
    for (int i = 0; i < 63; i++) {
      tenants.append(i == 0 ? "" : ",").append("name=t").append(i).append(" host_bytes=16GiB");
    }
    LoadedConfig loaded =
        new ConfigSource(
                null,
                Map.of(),
                List.of(
                    "host.bytes=1024GiB",
                    "host.slab_bytes=1GiB",
                    "host.policy=forecast",
                    "ssd.bytes=0",
                    "limits.blocks=8388608",
                    tenants.toString()))
            .load();
    long needed = 64 * EvictionPolicies.estimateBytes("forecast", 8388608, 8388608 / 64);
    long heap = (long) (needed * 1.05 * 8 / 7);
    assertEquals(List.of(), check(1L << 50, "memory", heap).problems(loaded));
    assertEquals(1, check(1L << 50, "memory", needed).problems(loaded).size());
    // The measured policies, and not another 16 bytes a block for them.
    long rest =
        1024 * GIB
            + Directory.metadataBytesFor(8388608, 2)
            + needed
            + 2 * loaded.config().limits().annotationBytes();
    assertEquals(List.of(), check(rest, "memory", heap).problems(loaded));
    assertEquals(1, check(rest - 1, "memory", heap).problems(loaded).size());
  }

  @Test
  void machine_fileSystemSmallerThanTheSsdTier_isTold() throws ConfigException {
    LoadedConfig loaded =
        new ConfigSource(
                null,
                Map.of(),
                List.of("ssd.bytes=1024TiB", "ssd.directory=" + folder.resolve("not/yet")))
            .load();
    List<String> problems = check(1L << 50, "memory", GIB).problems(loaded);
    assertEquals(1, problems.size(), problems.toString());
    assertTrue(problems.getFirst().contains("the whole file system is no larger"), "why");
    assertTrue(problems.getFirst().contains(folder.toString()), "where");
  }

  /** Records, lineage, buckets and the heads of annotations. */
  @Test
  void machine_manyBlocks_takeWhatTheDirectoryTakes() throws ConfigException, IOException {
    int blocks = 1 << 20;
    LoadedConfig loaded =
        new ConfigSource(null, Map.of(), List.of("limits.blocks=" + blocks, "ssd.bytes=0")).load();
    long rest =
        loaded.config().tiers().host().memory().bytes()
            + 2 * loaded.config().limits().annotationBytes();
    try (Directory directory = new Directory(blocks, 1)) {
      long needed = rest + directory.metadataBytes() + 16L * blocks;
      assertEquals(List.of(), check(needed, "memory", GIB).problems(loaded));
      assertEquals(1, check(needed - 1, "memory", GIB).problems(loaded).size());
    }
  }
}
