package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The version that the daemon tells its clients, which compare it with their own jars'. */
final class VersionTest {
  @Test
  void version_isThatOfTheBuild() throws IOException {
    Matcher version =
        Pattern.compile("<artifactId>kvtier-parent</artifactId>\\s*<version>([^<]+)</version>")
            .matcher(Files.readString(Path.of("../pom.xml")));
    assertEquals(true, version.find(), "no version in pom.xml");
    assertEquals(version.group(1), Daemon.VERSION);
  }
}
