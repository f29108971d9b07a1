package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import io.kvtier.client.CacheClient;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Command;

/** Shows the cache layouts that the daemon knows. */
@Command(
    name = "namespaces",
    description = {
      "Lists the namespaces that the daemon knows, with their blocks in memory and on SSD.",
      "A namespace is a named set of blocks that all its clients can use, because their model,"
          + " weights and other properties are equal. The column PROPERTIES shows them. The column"
          + " FINGERPRINT shows the name under which the blocks of a namespace are stored on SSD"
          + " and in the object store."
    })
final class NamespacesCommand extends DaemonCommand {
  @Override
  int run(CacheClient client) {
    Report report = report(client);
    if (isJson()) {
      JsonArray all = new JsonArray();
      report.namespaces().forEach(namespace -> all.add(namespace.json()));
      line(all.toString());
    } else {
      table(report).lines().forEach(this::line);
    }
    return 0;
  }

  static Table table(Report report) {
    boolean hasSsd = Places.of(report).has("ssd");
    List<String> heading =
        new ArrayList<>(List.of("NAMESPACE", "FINGERPRINT", ">BLOCK", ">IN MEMORY"));
    if (hasSsd) {
      heading.add(">ON SSD");
    }
    heading.add("PROPERTIES");
    Table table = new Table(heading.toArray(String[]::new));
    for (Report.Namespace namespace : report.namespaces()) {
      StringBuilder properties = new StringBuilder();
      namespace
          .properties()
          .forEach((name, value) -> {
            if (!name.equals("name")) {
              properties.append(properties.isEmpty() ? "" : " ").append(name).append('=');
              properties.append(value);
            }
          });
      List<String> row =
          new ArrayList<>(
              List.of(
                  namespace.fullName(),
                  namespace.fingerprint(),
                  Units.bytes(namespace.blockBytes()),
                  Units.count(namespace.hostBlocks())));
      if (hasSsd) {
        row.add(Units.count(namespace.ssdBlocks()));
      }
      row.add(properties.toString());
      table.row(row.toArray(String[]::new));
    }
    return table;
  }
}
