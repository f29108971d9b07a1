package io.kvtier.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.EventMedia;
import io.kvtier.daemon.config.KvtierdConfig.EventsConfig;
import io.kvtier.tiers.gpu.CopyOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ConfigLoaderTest {
  @TempDir Path directory;

  @Test
  void load_defaults_areValid() throws ConfigException {
    KvtierdConfig config = ConfigLoader.load(null, List.of());
    assertEquals(1L << 30, config.tiers().host().memory().bytes());
    assertEquals(16, config.tiers().host().memory().slabs());
    assertEquals(4L << 30, config.tiers().ssd().space().bytes());
    assertEquals(30_000_000_000L, config.limits().times().leaseNs());
  }

  @Test
  void load_settingOverFileOverDefaults() throws ConfigException, IOException {
    Path file = directory.resolve("k.yaml");
    Files.writeString(file, "host:\n  bytes: 256MiB\n  slab_bytes: 32MiB\n");
    KvtierdConfig config = ConfigLoader.load(file, List.of("host.bytes=128MiB"));
    assertEquals(128L << 20, config.tiers().host().memory().bytes());
    assertEquals(4, config.tiers().host().memory().slabs());
  }

  @Test
  void load_copyThreads_twoThirdsOfTheProcessorsUnlessSaid() throws ConfigException {
    int most = Runtime.getRuntime().availableProcessors() * 2 / 3;
    assertEquals(
        Math.clamp(most, 1, 12), ConfigLoader.load(null, List.of()).copies().checksums().threads());
    assertEquals(
        3, ConfigLoader.load(null, List.of("copy.threads=3")).copies().checksums().threads());
  }

  @Test
  void load_threadBlocks_ofCopiesAndOfEncoding() throws ConfigException {
    CopyOptions copies =
        ConfigLoader.load(null, List.of("gpu.thread_blocks=3", "gpu.encoding_thread_blocks=5"))
            .copies()
            .gpu()
            .copies();
    assertEquals(3, copies.stagingBlocks());
    assertEquals(5, copies.encodingBlocks());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"ann,bob:admin", " ann , bob:admin ", "[ann, bob:admin]", "ann,,bob:admin"})
  void load_listInOneWord_withOrWithoutBrackets(String users) throws ConfigException {
    assertEquals(
        List.of("ann", "bob:admin"),
        ConfigLoader.load(null, List.of("socket.users=" + users)).socket().users());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "host.byts=1GiB | did you mean 'host.bytes'",
        "ssd.enabled=no | unknown key 'ssd.enabled'; 'ssd' has admission, bytes,",
        "host.bytes=1gigabyte | unknown unit 'gigabyte'",
        "host.bytes=100MiB | a multiple of host.slab_bytes (64 MiB)",
        "host.bytes=lots | expected a size such as 512MiB",
        "host.policy=mru | no eviction policy is named 'mru'; there are",
        "host.free_target=0.9 | expected 0 to 0.25",
        "limits.lease=30 | it has no unit, the units are ns, us, ms, s, min and h; did you mean"
            + " 30s?",
        "limits.lease=0s | more than 0",
        "host.bytes=1GB | unknown unit 'GB', the units are B, KiB, MiB, GiB and TiB; did you mean"
            + " 1GiB?",
        "copy.inline_bytes=32k | did you mean 32KiB?",
        "copy.threads=0 | expected auto, or a number from 1 to 256",
        "copy.threads=half | expected auto or a whole number",
        "host.bytes=10MiB | a multiple of host.slab_bytes (64 MiB), such as 64MiB",
        "host.bytes=0 | is '0', expected a multiple of host.slab_bytes (64 MiB), such as 64MiB",
        "host.bytes=1024 | it has no unit, the units are B, KiB, MiB, GiB and TiB; did you mean"
            + " 1024B?",
        "host.bytes=10B | such as 64MiB",
        "ssd.file_bytes=10B | expected a size from 1 MiB to 1 TiB",
        "bytes=1GiB | did you mean 'host.bytes' or 'ssd.bytes' or 'object.bytes'?",
        "host=1GiB | is a section: expected one of its keys, such as 'host.bytes'",
        "grpc.enabled=yes | expected auto, true or false; did you mean true?",
        "limits.deadline=1h | at most limits.deadline_max",
        "ssd.threads=0 | a number from 1 to 256",
        "ssd.engine=aio | 'aio' is no SSD engine; expected auto, io_uring, pread or rocksdb",
        "ssd.codec=lz4 | codec 'lz4' is unknown: write 'none', 'zstd' or 'planes'",
        "ssd.codec=zstd/99 | the level '99' is none of 1 to 22",
        "socket.mode=rw | an octal file mode",
        "socket.mode=-1 | expected an octal file mode up to 0777",
        "socket.mode=1777 | expected an octal file mode up to 0777",
        "object.node=.x | letters, digits, '.', '_' or '-', and no '.' first",
        "grpc.enabled=maybe | expected auto, true or false",
        "events.endpoint=*:5557 | expected tcp://HOST:PORT, such as tcp://*:5557, or nothing",
        "events.consumer=sglang | expected vllm, dynamo or llm-d",
        "events.form=json | expected map, named or positional",
        "events.hashes=hex | expected integer or bytes",
        "events.ranks=0 | a number from 1 to 1024",
        "events.queue_bytes=3MiB | a power of two, such as 16MiB",
        "events.replay_endpoint=tcp://*:1 | nothing, where there is no events.endpoint",
        "events.engine_endpoint=tcp://*:1 | nothing, where there is no events.endpoint",
        "traces.endpoint=127.0.0.1:4318 | expected a URL such as http://127.0.0.1:4318/v1/traces",
        "traces.endpoint=http://127.0.0.1:4318 | expected a URL such as",
        "traces.endpoint=ftp://host/v1/traces | expected a URL such as",
        "traces.sample=2 | expected a share from 0 to 1",
        "traces.sample=NaN | expected a share from 0 to 1",
        "traces.sample=0.1 | expected 0, where there is no traces.endpoint",
        "limits.annotation_bytes=1TiB | a size from 0 B to 64 GiB",
        "nonsense | expected key=value",
        "object.store=s3 | object.s3.bucket is not set, expected the name of a bucket",
        "object.bytes=10B | expected 0, or at least host.slab_bytes (64 MiB)",
        "object.calls_min=100 | expected at most object.calls (8)",
        "object.gc_every=0s | expected more than 0",
        "object.load_timeout=0s | expected more than 0",
        "object.store_timeout=0s | expected more than 0",
        "object.probe_timeout=0s | expected more than 0",
        "object.breaker_open=0s | expected more than 0",
        "object.breaker_open_max=0s | expected more than 0",
        "object.retry_rest=0s | expected more than 0",
        "object.retry_rest_max=0ms | expected more than 0",
        "tls.handshake=0s | expected more than 0",
        "object.foo=1 | unknown key 'object.foo'; 'object' has absent_for, admission,",
      })
  void load_badSetting_saysWhatIsWrong(String setting, String expected) {
    ConfigException error =
        assertThrows(ConfigException.class, () -> ConfigLoader.load(null, List.of(setting)));
    assertTrue(String.valueOf(error.getMessage()).contains(expected), error.getMessage());
  }

  /** A port that nobody asked for would let in whom the socket's mode keeps out. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "host.bytes=64MiB | false",
        "grpc.threads=1 | false",
        "grpc.enabled=true | true",
        "grpc.enabled=auto | false",
        "grpc.port=7075 | true",
        "grpc.host=127.0.0.1 | true",
      })
  void grpc_unlessItIsSwitchedOnOrItsPlaceIsNamed_isOff(String setting, boolean isOn)
      throws Exception {
    assertEquals(isOn, ConfigLoader.load(null, List.of(setting)).network().grpc().enabled());
  }

  @Test
  void grpc_thatIsSwitchedOff_isOffWhereverItWouldListen() throws Exception {
    List<String> settings = List.of("grpc.port=7075", "grpc.enabled=false");

    assertFalse(ConfigLoader.load(null, settings).network().grpc().enabled());
  }

  @Test
  void load_ssdTooSmallForAFile_isOneMistake() {
    ConfigException error =
        assertThrows(
            ConfigException.class, () -> ConfigLoader.load(null, List.of("ssd.bytes=100MiB")));
    String words = String.valueOf(error.getMessage());
    assertTrue(words.contains("a multiple of ssd.file_bytes"), words);
    assertFalse(words.contains("ssd.directory"), words);
  }

  @Test
  void load_rocksdb_halfOfTheSpaceIsForBlocks() throws ConfigException {
    List<String> settings =
        List.of("ssd.engine=rocksdb", "ssd.bytes=128MiB", "ssd.file_bytes=16MiB");
    assertEquals(4, ConfigLoader.load(null, settings).tiers().ssd().files());
    ConfigException error =
        assertThrows(
            ConfigException.class,
            () -> ConfigLoader.load(null, List.of("ssd.engine=rocksdb", "ssd.bytes=1GiB")));
    assertTrue(
        String.valueOf(error.getMessage()).contains("at least 8 times ssd.file_bytes"),
        error.getMessage());
  }

  @Test
  void load_events_haveTheNamesThatTheirConsumerExpects() throws ConfigException {
    assertNull(ConfigLoader.load(null, List.of()).reports().events());
    List<String> names = new ArrayList<>();
    for (String consumer : List.of("vllm", "dynamo", "llm-d")) {
      EventsConfig events =
          ConfigLoader.load(
                  null,
                  List.of(
                      "events.endpoint=tcp://*:5557",
                      "events.consumer=" + consumer,
                      "events.topic=kv@pod@model",
                      "events.media.ssd=none"))
              .reports()
              .events();
      assertNotNull(events);
      EventMedia media = events.format().media();
      names.add(events.format().form() + " " + media.host() + media.ssd() + media.object());
    }
    assertEquals(List.of("MAP CPUSTORAGE", "MAP CPUEXTERNAL", "POSITIONAL cpuobject"), names);
  }

  @ParameterizedTest
  @CsvSource({
    "tcp://*:5557, tcp://*:5558, '', 2, events.replay_endpoint",
    "tcp://*:5558, tcp://127.0.0.1:5557, '', 2, events.replay_endpoint",
    "tcp://*:5557, tcp://*:5557, '', 1, events.replay_endpoint",
    "tcp://*:5557, tcp://*:*, '', 1, events.replay_endpoint",
    "tcp://*:5557, tcp://*:65535, '', 2, events.replay_endpoint",
    "tcp://*:5557, '', tcp://127.0.0.1:*, 1, events.engine_endpoint",
    "tcp://*:5557, '', tcp://127.0.0.1:65535, 2, events.engine_endpoint",
    "tcp://*:65536, tcp://*:5657, '', 1, events.endpoint",
    "tcp://*:65534, '', '', 3, events.endpoint",
    "tcp://*:*, '', '', 2, events.ranks",
    "tcp://*:0, '', '', 2, events.ranks",
  })
  void load_eventPortsThatCantBeHad_areRefused(
      String endpoint, String replay, String engine, int ranks, String mistaken) {
    ConfigException error =
        assertThrows(
            ConfigException.class,
            () -> ConfigLoader.load(null, eventPorts(endpoint, replay, engine, ranks)));
    String words = String.valueOf(error.getMessage());
    assertTrue(words.startsWith("--set: " + mistaken + " is "), words);
  }

  @ParameterizedTest
  @CsvSource({
    "tcp://*:5557, tcp://*:5559, '', 2",
    "tcp://*:5557, tcp://*:5555, tcp://10.0.0.1:5557, 2",
    "tcp://127.0.0.1:5557, tcp://127.0.0.2:5558, '', 2",
    "tcp://*:65534, '', '', 2",
    "tcp://*:*, tcp://*:5558, '', 1",
  })
  void load_eventPortsOfTheirOwn_areTaken(String endpoint, String replay, String engine, int ranks)
      throws ConfigException {
    assertNotNull(
        ConfigLoader.load(null, eventPorts(endpoint, replay, engine, ranks)).reports().events());
  }

  private static List<String> eventPorts(String endpoint, String replay, String engine, int ranks) {
    return List.of(
        "events.endpoint=" + endpoint,
        "events.replay_endpoint=" + replay,
        "events.engine_endpoint=" + engine,
        "events.ranks=" + ranks);
  }

  @Test
  void load_eventsForLlmd_wantItsTopic() {
    ConfigException error =
        assertThrows(
            ConfigException.class,
            () ->
                ConfigLoader.load(
                    null,
                    List.of(
                        "events.endpoint=tcp://*:5557",
                        "events.consumer=llm-d",
                        "events.topic=kv-events")));
    assertTrue(String.valueOf(error.getMessage()).contains("kv@POD@MODEL"), error.getMessage());
  }

  @Test
  void load_badSetting_saysNothingTwice() {
    ConfigException error =
        assertThrows(
            ConfigException.class, () -> ConfigLoader.load(null, List.of("host.bytes=-1")));
    assertEquals(
        "--set: host.bytes is '-1', expected a size such as 512MiB or 4GiB", error.getMessage());
  }

  @Test
  void load_badSetting_isNotHeldAgainstOthers() {
    ConfigException error =
        assertThrows(
            ConfigException.class, () -> ConfigLoader.load(null, List.of("object.calls=0")));
    assertEquals(
        "--set: object.calls is '0', expected a number from 1 to 4096", error.getMessage());
  }

  @ParameterizedTest
  @ValueSource(strings = {"http://localhost:70000", "http://localhost:0", "localhost:9000"})
  void load_endpointThatCanBeNone_isRefused(String endpoint) {
    List<String> settings =
        List.of("object.store=s3", "object.s3.bucket=b", "object.s3.endpoint=" + endpoint);
    ConfigException error =
        assertThrows(ConfigException.class, () -> ConfigLoader.load(null, settings));
    assertTrue(
        String.valueOf(error.getMessage())
            .contains("'" + endpoint + "', expected the form http[s]://host[:port], with a port"),
        error.getMessage());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "encryption: AES-256 | object.s3.encryption is 'AES-256', expected AES256, aws:kms or",
        "encryption: AES256, kms_key: k | object.s3.kms_key is 'k', expected nothing, where",
        "region: \"\" | object.s3.region is '', expected a region: us-east-1 will do",
        "prefix: a/../b | object.s3.prefix is 'a/../b', expected what a name can begin with; the",
        "idle_timeout: 0s | object.s3.idle_timeout is '0s', expected more than 0",
      })
  void load_mistakeOfTheS3Section_isToldAtItsOwnLine(String keys, String expected)
      throws IOException {
    String yaml = "object:\n  store: s3\n  s3:\n    bucket: b\n    " + keys.replace(", ", "\n    ");
    String problems = problemsOf(yaml);
    long line = yaml.lines().count();
    assertTrue(problems.startsWith("k.yaml, line " + line + ": " + expected), problems);
    assertFalse(problems.contains("\n"), problems);
  }

  @Test
  void load_mistakenEncryption_isNotHeldAgainstTheKey() throws IOException {
    assertEquals(
        "k.yaml, line 1: object.s3.encryption is 'kms', expected AES256, aws:kms or aws:kms:dsse,"
            + " or nothing",
        problemsOf("object: {store: s3, s3: {bucket: b, encryption: kms, kms_key: k}}"));
  }

  private String problemsOf(String yaml, String... settings) throws IOException {
    Path file = directory.resolve("k.yaml");
    Files.writeString(file, yaml);
    ConfigException error =
        assertThrows(ConfigException.class, () -> ConfigLoader.load(file, List.of(settings)));
    return String.valueOf(error.getMessage()).replace(file.toString(), "k.yaml");
  }

  @Test
  void load_severalMistakes_tellsAllWithTheirLines() throws IOException {
    assertEquals(
        """
        5 mistakes in the configuration:
          k.yaml, line 3: unknown key 'host.polcy'; did you mean 'host.policy'?
          k.yaml, line 4: unknown section 'sdd'; did you mean 'ssd'?
          k.yaml, line 2: host.bytes is '1GB', expected a size such as 512MiB or 4GiB; unknown unit \
        'GB', the units are B, KiB, MiB, GiB and TiB; did you mean 1GiB?
          --set: limits.sessions is '0', expected a number from 1 to 65536
          k.yaml, line 7: grpc.port is '70000', expected a number from 0 to 65535\
        """,
        problemsOf(
            """
            host:
              bytes: 1GB
              polcy: lru
            sdd:
              bytes: 1GiB
            grpc:
              port: 70000
            """,
            "limits.sessions=0"));
  }

  @Test
  void load_wordThatIsNone_isToldOnce() throws IOException {
    String problems = problemsOf("ssd:\n  durability: kil\nhost:\n  ledger: maped\n");
    assertTrue(problems.contains("'maped', expected mapped or chronicle\n"), problems);
    assertTrue(problems.endsWith("ssd.durability is 'kil', expected kill or power"), problems);
  }

  @Test
  void load_noBytesToAFile_isAMistake_andNoDefect() throws IOException {
    String problems = problemsOf("ssd:\n  file_bytes: 0\nhost:\n  slab_bytes: 0\n");
    assertTrue(problems.contains("line 2: ssd.file_bytes is '0'"), problems);
    assertTrue(problems.contains("line 4: host.slab_bytes is '0'"), problems);
  }

  @Test
  void load_mistakenSlab_isNotHeldAgainstTheBytes() throws IOException {
    String problems = problemsOf("host:\n  slab_bytes: 1\n  bytes: 96MiB\n");
    assertTrue(problems.startsWith("k.yaml, line 2: host.slab_bytes is '1'"), problems);
    assertFalse(problems.contains("host.bytes"), problems);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "'host: 1' | k.yaml, line 1: 'host' is a section: expected one of its keys, such as"
            + " 'host.bytes'",
        "'host: {bytes: {min: 1}}' | k.yaml, line 1: 'host.bytes' is a key: expected its value",
        "'host: {bytes: [1GiB]}' | host.bytes is '[1GiB]', expected one value, not a list",
        "'ssd: {directory: [a, {b: c}]}' | k.yaml, line 1: expected a name in the list, found a section",
        "'host: {policy: lru}\nhost: {bytes: 1GiB}' | k.yaml, line 2: section host stands there already at k.yaml, line 1; put its keys there",
        "'host: {policy: lru, policy: fifo}' | host.policy stands there already at k.yaml, line 1",
        "'host: {bytes: 128MiB}\n"
            + "host: {bytes: 1GiB}' | k.yaml, line 2: host.bytes stands there already",
        "'- host' | expected sections such as 'host:', found a list",
        "'a: &a {b: *a}' | unknown section 'a'",
        "'tenants: [&a {name: blue, users: [*a]}]' | k.yaml, line 1: expected a name in the list, found a section",
        "'tenants:\n - name: blue\n   users: {alice}' | k.yaml, line 3: expected a name or a list of names, found a section",
        "'host:\n\tbytes: 1GiB' | k.yaml, line 2, column 1: not valid YAML",
        "'host:\n  bytes: 1GiB\n policy: lru' | k.yaml, line 3, column 2: not valid YAML: this line does not stand below",
        "'host:\n  bytes: 1GiB\n    policy: lru' | k.yaml, line 3, column 11: not valid YAML: a second ':' in one line",
        "'host: [1,' | k.yaml, line 1, column 10: not valid YAML",
      })
  void load_badYaml_saysWhereAndWhat(String yaml, String expected) throws IOException {
    String problems = problemsOf(yaml.replace("\\n", "\n").replace("\\t", "\t"));
    assertTrue(problems.contains(expected), problems);
  }

  @Test
  void load_sectionOfCommentsAlone_changesNothing() throws ConfigException, IOException {
    Path file = directory.resolve("k.yaml");
    Files.writeString(file, "host:\n  # bytes: 2GiB\nsocket: {mode: 0600, users: [ann, '7']}\n");
    KvtierdConfig config = ConfigLoader.load(file, List.of());
    assertEquals(1L << 30, config.tiers().host().memory().bytes());
    assertEquals(0600, config.socket().mode());
    assertEquals(List.of("ann", "7"), config.socket().users());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "object: {store: s3, s3: {bucket: b, proxy: 'http://joe:hunter2@proxy'}}",
        "object: {store: s3, s3: {bucket: b, proxy: 'http://joe:p ss@hunter2@proxy:3128'}}",
        "object: {store: s3, s3: {bucket: b, proxy: 'joe:hunter2@proxy:3128'}}",
        "object: {store: s3, s3: {bucket: b, endpoint: 'http://joe:hunter2@s3:9000'}}",
        "object: {encryption: {key_file: /k, key_command: [fetch, --pin, hunter2]}}",
        "object: {encryption: {key_file: /k, key_command: 'fetch, hunter2'}}",
        "object:\n  encryption:\n    key_command: [fetch, hunter2\nhost:\n  bytes: 1GiB",
        "hunter2",
        "object: {s3: {proxi: 'http://joe:hunter2@proxy:3128'}, proxy: 'joe:hunter2@x:1'}",
      })
  void load_mistake_tellsNoSecret(String yaml) throws IOException {
    String problems = problemsOf(yaml);
    assertFalse(problems.contains("hunter2"), problems);
    assertTrue(problems.contains("k.yaml"), problems);
  }

  @Test
  void load_mistakenSettings_tellNoSecret() throws IOException {
    String problems =
        problemsOf("", "object.s3.proxy:http://joe:hunter2@p:1", "object.password hunter2");
    assertFalse(problems.contains("hunter2"), problems);
  }

  @Test
  void load_unreadableFile_saysWhyWithoutClassNames() throws IOException {
    Path binary = directory.resolve("binary");
    Files.write(binary, new byte[] {(byte) 0xff, 0, 1});
    for (Map.Entry<Path, String> each :
        Map.of(
                directory.resolve("absent.yaml"),
                "does not exist",
                directory,
                "is a folder",
                binary,
                "is not text in UTF-8")
            .entrySet()) {
      ConfigException error =
          assertThrows(
              ConfigException.class, () -> ConfigLoader.load(each.getKey(), List.of("x.y=1")));
      String message = String.valueOf(error.getMessage());
      assertTrue(message.contains("'" + each.getKey() + "' " + each.getValue()), message);
      assertFalse(message.contains("Exception"), message);
      assertTrue(message.contains("x.y"), message);
    }
  }
}
