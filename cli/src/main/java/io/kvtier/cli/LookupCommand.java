package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.KvtierException;
import io.kvtier.client.LookupResult;
import io.kvtier.client.Options;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** Where blocks are. */
@Command(
    name = "lookup",
    description = "Where blocks are. Changes nothing and renews nothing.",
    footer = {"", "Ends with 0 when every block is there, with 1 otherwise."})
final class LookupCommand extends DaemonCommand {
  @Option(
      names = "--namespace",
      paramLabel = "NAME",
      required = true,
      description = "The namespace, by its name.")
  private String namespaceName;

  @Option(
      names = "--group",
      paramLabel = "N",
      defaultValue = "0",
      description = "The cache group. Default: ${DEFAULT-VALUE}.")
  private int group;

  @Parameters(
      paramLabel = "KEYHEX",
      arity = "1..*",
      description = "The keys in hexadecimal, in prefix order, all of one length.")
  private List<String> keysHex;

  @Override
  int run(KvtierClient client) {
    Keys keys = keys();
    if (group < 0 || group > 0xffff) {
      throw new Failure(Failure.USAGE, "--group is 0 to 65535");
    }
    Report report = report(client);
    Report.Namespace known = report.namespace(namespaceName);
    if (known == null) {
      String names =
          report.namespaces().stream()
              .map(Report.Namespace::name)
              .sorted()
              .collect(Collectors.joining(", "));
      throw new Failure(
          Failure.NEGATIVE,
          "the daemon knows no namespace '"
              + namespaceName
              + "'; it knows "
              + (names.isEmpty() ? "none" : names));
    }
    LookupResult result;
    try {
      result =
          client
              .blocking()
              .lookup(
                  client.namespace(known.name(), known.blockBytes(), known.properties()),
                  keys,
                  Options.DEFAULT.withGroup(group));
    } catch (KvtierException e) {
      throw new Failure(Failure.NEGATIVE, String.valueOf(e.getMessage()));
    }
    if (result.status() == Status.UNAVAILABLE) {
      throw new Failure(Failure.NO_DAEMON, result.detail());
    }
    if (result.status() != Status.OK) {
      throw new Failure(Failure.NEGATIVE, "the lookup was not carried out: " + result.detail());
    }
    if (isJson()) {
      line(json(result));
    } else {
      print(result);
    }
    return result.blocks().all(Status.OK) ? 0 : Failure.NEGATIVE;
  }

  private Keys keys() {
    List<byte[]> keys = new ArrayList<>();
    for (String hex : keysHex) {
      try {
        keys.add(HexFormat.of().parseHex(hex));
      } catch (IllegalArgumentException e) {
        throw new Failure(
            Failure.USAGE, "'" + hex + "' is not a key in hexadecimal: " + e.getMessage());
      }
    }
    try {
      return Keys.of(keys);
    } catch (IllegalArgumentException e) {
      throw new Failure(
          Failure.USAGE, e.getMessage() + " (a key has 1 to " + Protocol.KEY_BYTES_MAX + " bytes)");
    }
  }

  private static String name(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT);
  }

  private String json(LookupResult result) {
    JsonArray blocks = new JsonArray();
    for (int i = 0; i < keysHex.size(); i++) {
      blocks.add(
          new JsonObject()
              .add("key", keysHex.get(i))
              .add("status", name(result.blocks().status(i)))
              .add("tier", name(result.blocks().tier(i))));
    }
    return new JsonObject()
        .add("namespace", namespaceName)
        .add("group", group)
        .add("run", result.run())
        .add("load_time_ns", result.loadTimeNs())
        .add("blocks", blocks)
        .toString();
  }

  private void print(LookupResult result) {
    Table table = new Table("KEY", "STATUS", "TIER");
    for (int i = 0; i < keysHex.size(); i++) {
      Status status = result.blocks().status(i);
      table.row(
          keysHex.get(i), name(status), status == Status.OK ? name(result.blocks().tier(i)) : "-");
    }
    table.lines().forEach(this::line);
    line(
        "leading run of "
            + result.run()
            + (result.run() == 1 ? " block" : " blocks")
            + ", to load in about "
            + Units.nanoseconds(result.loadTimeNs()));
  }
}
