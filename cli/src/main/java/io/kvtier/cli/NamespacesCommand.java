package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import io.kvtier.client.KvtierClient;
import picocli.CommandLine.Command;

/** Which cache layouts the daemon knows. */
@Command(
    name = "namespaces",
    description =
        "Lists the namespaces that the daemon knows, with their blocks in memory and on SSD. A"
            + " namespace is one layout of one model's cache. FINGERPRINT is what its blocks are"
            + " stored under.")
final class NamespacesCommand extends DaemonCommand {
  @Override
  int run(KvtierClient client) {
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
    Table table =
        new Table("NAMESPACE", "FINGERPRINT", ">BLOCK", ">IN MEMORY", ">ON SSD", "PROPERTIES");
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
      table.row(
          namespace.fullName(),
          namespace.fingerprint(),
          Units.bytes(namespace.blockBytes()),
          Units.count(namespace.hostBlocks()),
          Units.count(namespace.ssdBlocks()),
          properties.toString());
    }
    return table;
  }
}
