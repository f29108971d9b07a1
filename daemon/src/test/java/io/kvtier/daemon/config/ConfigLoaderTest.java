package io.kvtier.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ConfigLoaderTest {
  @TempDir Path directory;

  @Test
  void load_defaults_areValid() throws ConfigException {
    KvtierdConfig config = ConfigLoader.load(null, List.of());
    assertEquals(1L << 30, config.host().bytes());
    assertEquals(16, config.host().slabs());
    assertEquals(4L << 30, config.ssd().bytes());
    assertEquals(30_000_000_000L, config.limits().leaseNs());
  }

  @Test
  void load_settingOverFileOverDefaults() throws ConfigException, IOException {
    Path file = directory.resolve("k.yaml");
    Files.writeString(file, "host:\n  bytes: 256MiB\n  slab_bytes: 32MiB\n");
    KvtierdConfig config = ConfigLoader.load(file, List.of("host.bytes=128MiB"));
    assertEquals(128L << 20, config.host().bytes());
    assertEquals(4, config.host().slabs());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "host.byts=1GiB | did you mean 'host.bytes'",
        "host.bytes=1gigabyte | unknown unit 'gigabyte'",
        "host.bytes=100MiB | a multiple of host.slab_bytes (64 MiB)",
        "host.bytes=lots | expected a size such as 512MiB",
        "host.policy=mru | no eviction policy is named 'mru'; there are",
        "host.free_target=0.9 | expected 0 to 0.25",
        "limits.lease=30 | unknown unit ''",
        "limits.deadline=1h | at most limits.deadline_max",
        "ssd.threads=0 | a number from 1 to 256",
        "socket.mode=rw | an octal file mode",
        "grpc.enabled=maybe | true or false",
        "nonsense | expected key=value",
      })
  void load_badSetting_saysWhatIsWrong(String setting, String expected) {
    ConfigException error =
        assertThrows(ConfigException.class, () -> ConfigLoader.load(null, List.of(setting)));
    assertTrue(String.valueOf(error.getMessage()).contains(expected), error.getMessage());
  }

  @Test
  void load_badFile_namesTheFile() throws IOException {
    Path file = directory.resolve("bad.yaml");
    Files.writeString(file, "host: [1,\n");
    ConfigException error =
        assertThrows(ConfigException.class, () -> ConfigLoader.load(file, List.of()));
    assertTrue(String.valueOf(error.getMessage()).contains("bad.yaml"), error.getMessage());
    assertThrows(
        ConfigException.class,
        () -> ConfigLoader.load(directory.resolve("absent.yaml"), List.of()));
  }
}
