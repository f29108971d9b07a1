package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.kvtier.tiers.node.ucx.UcxFabric;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** The libucp that tests use: the one that scripts/test installs, or that of the system. */
public final class UcxLibrary {
  private static final Path INSTALLED =
      Path.of("../target/ucx/libucx/lib/libucp.so.0").toAbsolutePath().normalize();

  private static final String NEEDED = "KVTIER_TESTS_NEED_UCX";

  private UcxLibrary() {}

  /** The library; a test without it is skipped, unless scripts/test has installed it. */
  static String find() throws IOException {
    String name = Files.exists(INSTALLED) ? INSTALLED.toString() : UcxFabric.LIBRARY;
    String missing = null;
    try {
      var _ = UcxFabric.check(name);
    } catch (IOException e) {
      missing = String.valueOf(e.getMessage());
    }
    assertTrue(missing == null || System.getenv(NEEDED) == null, missing);
    assumeTrue(missing == null, missing);
    return name;
  }

  /** A fabric that uses TCP only, also between processes of one machine. */
  public static UcxFabric fabric() throws IOException {
    return new UcxFabric(find(), Map.of("TLS", "tcp"));
  }
}
