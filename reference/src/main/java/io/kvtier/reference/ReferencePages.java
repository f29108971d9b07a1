package io.kvtier.reference;

import io.kvtier.protocol.v1.PingRequest;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Stream;

/** The generator of the reference pages. Takes the checkout and the folder for the pages. */
public final class ReferencePages {
  private static final String PROTO = "protocol/src/main/proto/kvtier/v1/kvtier.proto";

  private ReferencePages() {}

  /** Writes all pages. */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[1]);
    Files.createDirectories(folder);
    for (Map.Entry<String, String> page : pages(Path.of(arguments[0])).entrySet()) {
      Files.writeString(folder.resolve(page.getKey()), page.getValue());
    }
    // The daemon's libraries leave threads behind.
    System.exit(0);
  }

  /** All pages by the names of their files. */
  static Map<String, String> pages(Path checkout) throws Exception {
    Map<String, String> pages = new LinkedHashMap<>();
    pages.put("configuration.md", ConfigurationPage.text());
    pages.put("cli-kvtier.md", CommandPage.text(CommandPage.model("io.kvtier.cli.Kvtier")));
    pages.put("cli-kvtierd.md", CommandPage.text(CommandPage.model("io.kvtier.daemon.Kvtierd")));
    pages.put("metrics.md", metrics());
    pages.put("status.md", StatusPage.text());
    pages.put(
        "grpc.md",
        new GrpcPage(
                PingRequest.getDescriptor().getFile(), Files.readString(checkout.resolve(PROTO)))
            .text());
    pages.put("layouts.md", LayoutsPage.text(checkout));
    return pages;
  }

  private static String metrics() throws Exception {
    Path scratch = Files.createTempDirectory("kvtier-reference");
    try {
      return MetricsReference.text(scratch);
    } finally {
      try (Stream<Path> files = Files.walk(scratch)) {
        for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
          Files.delete(file);
        }
      }
    }
  }
}
