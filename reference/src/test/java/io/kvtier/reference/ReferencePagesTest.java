package io.kvtier.reference;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.v1.PingRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;

/** Pages that are made anew by each build are never stale; these tests hold them to be complete. */
@Timeout(120)
final class ReferencePagesTest {
  private static final Path CHECKOUT = Path.of("..").toAbsolutePath().normalize();
  private static Map<String, String> pages = Map.of();

  @BeforeAll
  static void write() throws Exception {
    pages = ReferencePages.pages(CHECKOUT);
  }

  private static String page(String name) {
    return pages.getOrDefault(name, "");
  }

  private static void assertRow(String page, String name) {
    assertTrue(page(page).contains("| `" + name + "` |"), () -> page + " lacks " + name);
  }

  @Test
  void manualPage_hasEveryKeyWithItsDefault() {
    String manual = ConfigurationManual.text();
    assertTrue(manual.contains("\\fBhost.bytes\\fR (default: 1GiB)\n"), manual);
    assertTrue(manual.contains("\\fBobject.s3.bucket\\fR (default: empty)\n"), manual);
    for (ConfigurationPage.Key key : ConfigurationPage.keys(ConfigLoader.defaults())) {
      String name = ConfigurationManual.roff(key.name());
      assertTrue(
          manual.contains(
              key.section()
                  ? (key.name().contains(".") ? ".SS \"" + key.name() : ".SH \"")
                  : "\\fB" + name + "\\fR (default: "),
          key.name());
    }
  }

  @Test
  void configuration_hasEveryKeyThatTheDaemonTakes() throws Exception {
    KvtierdConfig config = ConfigLoader.load(null, List.of());
    Set<String> taken =
        config.reports().settings().stream()
            .map(entry -> entry.key())
            .collect(Collectors.toCollection(TreeSet::new));
    Set<String> written = new TreeSet<>();
    for (ConfigurationPage.Key key : ConfigurationPage.keys(ConfigLoader.defaults())) {
      if (!key.section()) {
        written.add(key.name());
      }
      String heading = "`" + key.name() + "` {#" + key.name() + "}\n";
      assertTrue(page("configuration.md").contains(heading), heading);
    }
    assertEquals(taken, written);
  }

  @Test
  void commands_haveEverySubcommandWithEveryOption() throws Exception {
    for (String main : List.of("io.kvtier.cli.Kvtier", "io.kvtier.daemon.Kvtierd")) {
      CommandSpec command = CommandPage.model(main);
      String page = page("cli-" + command.name() + ".md");
      List<CommandSpec> all = new ArrayList<>(CommandPage.parts(command));
      assertFalse(all.isEmpty(), main);
      all.add(command);
      for (CommandSpec one : all) {
        String name = one.qualifiedName();
        int begin = page.indexOf("# `" + name + "`");
        assertTrue(begin >= 0, () -> main + " lacks " + name);
        int end = page.indexOf("\n## ", begin + 1);
        String section = page.substring(begin, end < 0 ? page.length() : end);
        for (OptionSpec option : CommandPage.options(one)) {
          assertTrue(section.contains(option.longestName()), () -> name + option.longestName());
        }
      }
    }
  }

  /**
   * In the sources, as a family of a part that the page's daemon lacks would be seen nowhere else.
   */
  @Test
  void metrics_haveEveryFamilyThatIsNamedInTheSources() throws IOException {
    Pattern literal = Pattern.compile("\"(kvtier[._][a-z._]+[a-z])\"");
    Set<String> missing = new TreeSet<>();
    int seen = 0;
    try (Stream<Path> files =
        Files.list(CHECKOUT.resolve("daemon/src/main/java/io/kvtier/daemon/http"))) {
      for (Path file : files.toList()) {
        Matcher name = literal.matcher(Files.readString(file));
        while (name.find()) {
          String family = name.group(1).replace('.', '_');
          seen++;
          if (!page("metrics.md").contains("| `" + family)) {
            missing.add(file.getFileName() + ": " + family);
          }
        }
      }
    }
    assertTrue(seen > 30, "only " + seen);
    assertEquals(Set.of(), missing);
  }

  @Test
  void metrics_haveAllThatAlertsAndDashboardsUse() throws IOException {
    Pattern metric = Pattern.compile("\\b(?:kvtier|process|jvm)_[a-z0-9_]+");
    Set<String> missing = new TreeSet<>();
    for (String file : List.of("prometheus/kvtier.rules.yml", "grafana/kvtier.json")) {
      Matcher name = metric.matcher(Files.readString(CHECKOUT.resolve("config").resolve(file)));
      while (name.find()) {
        String family = name.group().replaceFirst("_(bucket|sum|count)$", "");
        if (!page("metrics.md").contains("`" + family + "`")) {
          missing.add(family);
        }
      }
    }
    assertEquals(Set.of(), missing);
  }

  @Test
  void metrics_haveMeaningTypeAndEveryCounter() {
    assertFalse(page("metrics.md").contains("` |  |"), "a family without type or meaning");
    for (Counter counter : Counter.values()) {
      assertRow("metrics.md", counter.key());
    }
  }

  @Test
  void status_hasEveryCodeAndVerb() {
    for (Status status : Status.values()) {
      assertTrue(
          page("status.md").contains("| " + status.code() + " | `" + status.name() + "` |"),
          status.name());
    }
    for (Verb verb : Verb.values()) {
      assertTrue(
          page("status.md").contains("| " + verb.code() + " | `" + verb.name() + "` |"),
          verb.name());
    }
  }

  @Test
  void grpc_hasEveryMethodFieldAndValueWithItsComment() {
    FileDescriptor file = PingRequest.getDescriptor().getFile();
    String page = page("grpc.md");
    file.getServices()
        .forEach(service ->
            service
                .getMethods()
                .forEach(method ->
                    assertTrue(page.contains("### `" + method.getName() + "`"), method.getName())));
    file.getMessageTypes()
        .forEach(
            message -> message.getFields().forEach(field -> assertRow("grpc.md", field.getName())));
    for (EnumDescriptor enumeration : file.getEnumTypes()) {
      enumeration
          .getValues()
          .forEach(value ->
              assertFalse(
                  page.contains("| `" + value.getName() + "` |  |"),
                  () -> value.getName() + " has no comment"));
    }
    assertTrue(page.contains("Which blocks are here, and where."), page);
    assertTrue(page.contains("The first message, and only the first."), page);
  }

  @Test
  void layouts_haveEveryDescriptorWithEveryConstantAndItsDiagram() throws Exception {
    List<LayoutsPage.Layout> layouts = LayoutsPage.layouts(CHECKOUT);
    assertTrue(layouts.size() >= 10, () -> String.valueOf(layouts.size()));
    for (LayoutsPage.Layout layout : layouts) {
      assertTrue(layout.comment().contains("<pre>"), () -> layout.type() + " has no diagram");
      assertFalse(LayoutsPage.constants(layout.type()).isEmpty(), layout.type()::getName);
      LayoutsPage.constants(layout.type())
          .forEach(constant -> assertRow("layouts.md", constant.getName()));
    }
  }
}
