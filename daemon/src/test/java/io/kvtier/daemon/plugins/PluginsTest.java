package io.kvtier.daemon.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.doctor.Doctor;
import io.kvtier.daemon.doctor.Finding;
import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.protocol.plugin.PluginApi;
import io.kvtier.protocol.plugin.PluginException;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.gpu.GpuProbe;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** What is loaded of a folder of jars, and what is refused in which words. */
final class PluginsTest {
  private static final String EVICTION = "io.kvtier.policies.EvictionPolicyProvider";
  private static final String CODEC = "io.kvtier.tiers.codec.BlockCodecProvider";

  @TempDir private Path work;
  private Path folder = Path.of("");

  @BeforeEach
  void makeFolder() throws IOException {
    folder = Files.createDirectory(work.resolve("plug-ins"));
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
  }

  @AfterEach
  void forget() {
    Plugins.forget();
  }

  /** A provider of a policy that is lru. */
  private static String provider(String type, String name, String create) {
    return "import io.kvtier.policies.*; public class "
        + type
        + " implements EvictionPolicyProvider { public String name() { "
        + name
        + " } public EvictionPolicy create(PolicySetup setup) { "
        + create
        + " } }";
  }

  private PluginJar policy(String type, String name, String create) throws IOException {
    return new PluginJar(work)
        .service(EVICTION, "# a comment\n" + type + "\n")
        .type(type, provider(type, name, create));
  }

  private String refusal() {
    String message =
        String.valueOf(assertThrows(PluginException.class, () -> Plugins.of(folder)).getMessage());
    assertTrue(message.contains("expected"), message);
    return message;
  }

  private static void assertSays(String message, String... words) {
    for (String word : words) {
      assertTrue(message.contains(word), message);
    }
  }

  @Test
  void pluginsPolicy_isChosenByName_withItsOptions_alsoWithinOthers() throws Exception {
    policy("Mine", "return \"mine\";", "setup.count(\"a\", 1, 0, 9); return setup.inner(\"lru\");")
        .write(folder.resolve("mine.jar"));
    Plugins plugins = Plugins.of(folder);
    assertEquals(
        List.of("eviction policy 'mine' (mine.jar)"),
        plugins.parts().stream().map(Plugins.Part::toString).toList());
    assertEquals(0, EvictionPolicies.create("lineage/mine:a=3/fifo", 8, 8).size());
    assertSays(
        String.valueOf(
            assertThrows(
                    IllegalArgumentException.class, () -> EvictionPolicies.create("mine:b=3", 8, 8))
                .getMessage()),
        "policy mine has no option 'b'; it has a");
    KvtierdConfig config =
        ConfigLoader.load(null, List.of("plugins.directory=" + folder, "host.policy=mine"));
    assertEquals("mine", config.tiers().host().policy());
    assertSame(plugins, config.tiers().plugins().plugins());
  }

  @Test
  void policyNamesABlockThatIsNotAccepted_isRefusedAndTheOneToBlameNamed() throws Exception {
    String broken =
        "return new EvictionPolicy() {"
            + " public void onInsert(int b, int n, long f, int d, long p) {}"
            + " public void onHit(int b) { throw new RuntimeException(\"oh\"); }"
            + " public void onRemove(int b, Removal why) {}"
            + " public int victim(VictimFilter filter, int looks) { return 3; }"
            + " public int size() { return 1; } public void forEach(BlockVisitor v) {}"
            + " public long metadataBytes() { return 0; } public void checkInvariants() {} };";
    policy("Broken", "return \"broken\";", broken).write(folder.resolve("broken.jar"));
    var _ = Plugins.of(folder);
    EvictionPolicy policy = EvictionPolicies.create("broken", 8, 8);
    policy.onInsert(3, 1, 1, 0, 0);
    assertEquals(3, policy.victim(_ -> true, 1));
    assertSays(
        String.valueOf(
            assertThrows(IllegalStateException.class, () -> policy.victim(_ -> false, 1))
                .getMessage()),
        "'broken' named block 3 as a victim; expected a block that the filter accepts");
    assertSays(
        String.valueOf(
            assertThrows(IllegalStateException.class, () -> policy.onHit(3)).getMessage()),
        "'broken' failed in onHit");
    policy.onRemove(3, EvictionPolicy.Removal.DELETED);
    assertThrows(IllegalStateException.class, () -> policy.victim(_ -> true, 1));
  }

  @Test
  void policyAsksForABlockThatItDoesNotTrack_isRefused_andEveryFailureNamesThePolicy()
      throws Exception {
    String broken =
        "return new EvictionPolicy() {"
            + " public void onInsert(int b, int n, long f, int d, long p) {}"
            + " public void onHit(int b) {}"
            + " public void onRemove(int b, Removal why) {}"
            + " public int victim(VictimFilter filter, int looks) {"
            + " filter.accepts(5); return 5; }"
            + " public int size() { throw new RuntimeException(\"oh\"); }"
            + " public void forEach(BlockVisitor v) { throw new RuntimeException(\"oh\"); }"
            + " public java.util.List<WhatIf> whatIf() { return null; }"
            + " public long metadataBytes() { throw new NoClassDefFoundError(\"Absent\"); }"
            + " public void checkInvariants() {} };";
    policy("Broken", "return \"broken\";", broken).write(folder.resolve("broken.jar"));
    var _ = Plugins.of(folder);
    EvictionPolicy policy = EvictionPolicies.create("broken", 8, 8);
    assertSays(
        String.valueOf(
            assertThrows(IllegalStateException.class, () -> policy.victim(_ -> true, 1))
                .getMessage()),
        "'broken' named block 5 as a victim");
    Map<String, Executable> calls =
        Map.of(
            "size", policy::size,
            "forEach", () -> policy.forEach(_ -> {}),
            "whatIf", policy::whatIf,
            "metadataBytes", policy::metadataBytes);
    calls.forEach((name, call) ->
        assertSays(
            String.valueOf(assertThrows(IllegalStateException.class, call).getMessage()),
            "'broken' failed in " + name + ": "));
  }

  @Test
  void configuration_namesTheKeyAndEveryMistake() throws IOException {
    String message =
        String.valueOf(
            assertThrows(
                    ConfigException.class,
                    () ->
                        ConfigLoader.load(
                            null,
                            List.of("plugins.directory=" + work.resolve("none"), "log.level=loud")))
                .getMessage());
    assertSays(
        message,
        "plugins.directory is '" + work.resolve("none"),
        "does not exist; expected a folder of jars: make it",
        "log.level is 'loud'");
    String sources =
        String.valueOf(
            assertThrows(
                    ConfigException.class,
                    () -> ConfigLoader.load(null, List.of("plugins.sources=name=mirror path=/x")))
                .getMessage());
    assertSays(
        sources,
        "plugins.sources is 'name=mirror path=/x', expected sources that a plug-in provides (there"
            + " is none: set plugins.directory to a folder with one), not 'mirror'");
  }

  @Test
  void whatOthersCanWrite_isRefused_folderAndJar() throws IOException {
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxr-x"));
    assertSays(refusal(), "'" + folder + "' has mode 0775", "chmod g-w,o-w");
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
    Path jar = policy("Mine", "return \"mine\";", "return null;").write(folder.resolve("m.jar"));
    Files.setPosixFilePermissions(jar, PosixFilePermissions.fromString("rw-r--rw-"));
    assertSays(refusal(), "'" + jar + "' has mode 0646");
    Files.setPosixFilePermissions(jar, PosixFilePermissions.fromString("rw-r--r--"));
    Files.setPosixFilePermissions(work, PosixFilePermissions.fromString("rwxrwxrwx"));
    assertSays(refusal(), "'" + work + "' has mode 0777", "chmod o-w");
    // A link from a safe folder to an unsafe one is no way round.
    Path safe = Files.createDirectory(folder.resolve("safe"));
    Files.createSymbolicLink(safe.resolve("m.jar"), jar);
    folder = safe;
    assertSays(refusal(), "'" + work + "' has mode 0777");
  }

  @Test
  void brokenJar_isNamed() throws IOException {
    Files.writeString(folder.resolve("torn.jar"), "PK no more");
    assertSays(refusal(), folder.resolve("torn.jar") + "' is no whole jar", "copy it again");
    Files.delete(folder.resolve("torn.jar"));
    Files.createSymbolicLink(folder.resolve("gone.jar"), work.resolve("nowhere"));
    assertSays(refusal(), "a link that leads nowhere?");
  }

  @Test
  void jarOfAnotherVersion_orOfNone_orWithAnUnknownService_isRefused() throws IOException {
    Path jar = folder.resolve("mine.jar");
    policy("Mine", "return \"mine\";", "return null;").version("7").write(jar);
    assertSays(refusal(), "mine.jar' was compiled for version 7", "; expected 1: compile it");
    policy("Mine", "return \"mine\";", "return null;").version("").write(jar);
    assertSays(refusal(), "mine.jar' does not say", "'Kvtier-Plugin-Api: 1'");
    new PluginJar(work).service("io.kvtier.policies.Eviction", "Mine").write(jar);
    assertSays(refusal(), "provides 'io.kvtier.policies.Eviction'", EVICTION);
  }

  @Test
  void providerThatThrows_isMissing_orIsNone_isRefusedWithItsJar() throws IOException {
    Path jar = folder.resolve("mine.jar");
    new PluginJar(work).service(EVICTION, "Absent").write(jar);
    assertSays(refusal(), "'mine.jar', can't be loaded", "Absent not found");
    policy("Mine", "throw new RuntimeException(\"oh\");", "return null;").write(jar);
    assertSays(refusal(), "Mine of 'mine.jar' does not tell its name: java.lang.Runtime", "oh");
    new PluginJar(work)
        .service(EVICTION, "Thrower")
        .type(
            "Thrower",
            "public class Thrower extends Base { public Thrower() { throw new"
                + " IllegalStateException(\"no\"); } } "
                + provider("Base", "return \"a\";", "return null;")
                    .replace("import io.kvtier.policies.*; public class", "abstract class")
                    .replace("EvictionPolicy", "io.kvtier.policies.EvictionPolicy")
                    .replace("PolicySetup", "io.kvtier.policies.PolicySetup"))
        .write(jar);
    assertSays(refusal(), "'mine.jar', can't be loaded", "no", "that throws nothing");
    new PluginJar(work)
        .service(EVICTION, "Other")
        .type("Other", "public class Other {}")
        .write(jar);
    assertSays(refusal(), "'mine.jar', can't be loaded", "not a subtype");
  }

  @Test
  void classThatAPluginNeedsAndThatIsMissing_isALinkErrorInWords() throws IOException {
    new PluginJar(work)
        .service(EVICTION, "Needy")
        .type(
            "Needy",
            "import io.kvtier.policies.*; public class Needy extends Library { } class Library"
                + " implements EvictionPolicyProvider { public String name() { return \"n\"; }"
                + " public EvictionPolicy create(PolicySetup s) { return null; } }")
        .without("Library.class")
        .write(folder.resolve("needy.jar"));
    assertSays(refusal(), "can't be loaded", "Library", "put the libraries that it uses beside");
  }

  @Test
  void twoOfOneName_orABuiltInName_orOneThatCanNotBeChosen_isRefused() throws IOException {
    policy("One", "return \"same\";", "return null;").write(folder.resolve("one.jar"));
    policy("Two", "return \"same\";", "return null;").write(folder.resolve("two.jar"));
    assertSays(
        refusal(),
        "Two of 'two.jar', named 'same', has the name of One of 'one.jar'",
        "remove one of the two jars");
    Files.delete(folder.resolve("two.jar"));
    policy("One", "return \"lru\";", "return null;").write(folder.resolve("one.jar"));
    assertSays(refusal(), "One of 'one.jar', named 'lru', has the name of a built-in one");
    policy("One", "return \"a/b\";", "return null;").write(folder.resolve("one.jar"));
    assertSays(refusal(), "named 'a/b', can't be chosen by that name");
  }

  @Test
  void providerThatMakesNoPolicy_orThrows_isAMistakeOfTheSetting() throws Exception {
    policy("One", "return \"nothing\";", "return null;").write(folder.resolve("one.jar"));
    policy("Two", "return \"thrower\";", "throw new NullPointerException();")
        .write(folder.resolve("two.jar"));
    var _ = Plugins.of(folder);
    for (String name : List.of("nothing", "thrower")) {
      assertSays(
          String.valueOf(
              assertThrows(
                      ConfigException.class,
                      () -> ConfigLoader.load(null, List.of("host.policy=" + name)))
                  .getMessage()),
          "host.policy is '" + name + "'",
          "expected a policy: choose another one");
    }
  }

  @Test
  void codecs_areChosenByName_decodedById_andHeldToTheirWord() throws Exception {
    new PluginJar(work)
        .service(CODEC, "Zero")
        .type(
            "Zero",
            "import io.kvtier.tiers.codec.*; import java.lang.foreign.*; public class Zero"
                + " implements BlockCodecProvider { public String name() { return \"zero\"; }"
                + " public int id() { return 77; } public BlockCodec create(String level) {"
                + " return new BlockCodec() { public String name() { return \"zero\"; }"
                + " public byte id() { return 1; } public long boundBytes(int raw) { return raw; }"
                + " public int encode(MemorySegment raw, MemorySegment to) {"
                + " return level.equals(\"liar\") ? (int) raw.byteSize() + 5 : 8; }"
                + " public void decode(MemorySegment from, MemorySegment raw) {"
                + " raw.fill((byte) 0); } }; } }")
        .write(folder.resolve("zero.jar"));
    var _ = Plugins.of(folder);
    BlockCodec codec = BlockCodecs.create("zero/9");
    assertEquals(77, codec.id());
    assertEquals("zero/9", codec.name());
    assertTrue(BlockCodecs.isKnown((byte) 77));
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment raw = arena.allocate(4096);
      MemorySegment target = arena.allocate(8192);
      assertEquals(8, codec.encode(raw, target));
      assertEquals(-1, BlockCodecs.create("zero/liar").encode(raw, target));
      raw.fill((byte) 7);
      BlockCodecs.byId((byte) 77).decode(target.asSlice(0, 8), raw);
      assertEquals(-1, raw.mismatch(arena.allocate(4096)));
    }
    assertEquals(
        "zero/3",
        ConfigLoader.load(null, List.of("ssd.codec=zero/3"))
            .tiers()
            .ssd()
            .writing()
            .codec()
            .name());
  }

  private static Finding doctorsLine(String directory) throws Exception {
    KvtierdConfig config =
        ConfigLoader.load(
            null, List.of("plugins.directory=" + directory, "ssd.bytes=0", "http.enabled=false"));
    return new Doctor(config, 0, () -> new GpuProbe.NoGpu("this is a test"))
        .findings().stream()
            .filter(finding -> finding.check().equals("plug-ins"))
            .findFirst()
            .orElseThrow();
  }

  @Test
  void doctor_namesEveryPart_andWarnsOfAFolderWithoutParts() throws Exception {
    Finding none = doctorsLine("");
    assertEquals(Finding.Level.PASS, none.level());
    assertSays(none.what(), "plugins.directory is empty");
    Finding empty = doctorsLine(folder.toString());
    assertEquals(Finding.Level.WARN, empty.level());
    assertSays(empty.what(), "none in '" + folder + "'");
    assertSays(empty.cure(), "put jars there");
    Plugins.forget();
    policy("Mine", "return \"mine\";", "return setup.inner(\"lru\");")
        .write(folder.resolve("mine.jar"));
    Finding loaded = doctorsLine(folder.toString());
    assertEquals(Finding.Level.PASS, loaded.level());
    assertSays(loaded.what(), folder.toString(), "eviction policy 'mine' (mine.jar)");
  }

  @Test
  void plannedServices_exist() throws ClassNotFoundException {
    for (String service : PluginApi.SERVICES) {
      assertTrue(Class.forName(service).isInterface(), service);
    }
  }

  @Test
  void anotherFolder_isCheckedButNotUsed_untilTheProcessStartsAnew() throws Exception {
    policy("One", "return \"one\";", "return setup.inner(\"lru\");")
        .write(folder.resolve("one.jar"));
    Plugins first = Plugins.of(folder);
    folder = Files.createDirectory(work.resolve("other"));
    Files.writeString(folder.resolve("torn.jar"), "torn");
    assertSays(refusal(), "is no whole jar");
    Files.delete(folder.resolve("torn.jar"));
    assertEquals(List.of(), Plugins.of(folder).parts());
    assertEquals(0, EvictionPolicies.create("one", 8, 8).size());
    assertSame(first, Plugins.of(work.resolve("plug-ins")));
  }
}
