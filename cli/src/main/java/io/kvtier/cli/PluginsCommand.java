package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.KvtierClient;
import picocli.CommandLine.Command;

/** Shows the plug-ins that the daemon has loaded. */
@Command(
    name = "plugins",
    description = {
      "Shows the plug-ins that the daemon has loaded from plugins.directory: what each jar provides,"
          + " and the name by which the configuration chooses it.",
      "The command 'kvtierd config check' shows what would be loaded. Jars are loaded when the"
          + " daemon starts."
    })
final class PluginsCommand extends DaemonCommand {
  @Override
  int run(KvtierClient client) {
    String answer = ask(client, "plugins");
    if (isJson()) {
      line(answer);
      return 0;
    }
    JsonObject plugins = parse(answer);
    String directory = plugins.getString("directory", "");
    if (directory.isEmpty()) {
      line("no plug-ins: plugins.directory is empty");
      return 0;
    }
    Table table = new Table("KIND", "NAME", "JAR");
    for (JsonValue each : plugins.get("parts").asArray()) {
      JsonObject part = each.asObject();
      table.row(part.getString("kind", ""), part.getString("name", ""), part.getString("jar", ""));
    }
    line("directory   " + directory);
    table.lines().forEach(this::line);
    return 0;
  }
}
