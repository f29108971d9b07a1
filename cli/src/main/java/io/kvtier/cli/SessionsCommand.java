package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import io.kvtier.client.DaemonInfo;
import io.kvtier.client.KvtierClient;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Parameters;

/** Who is connected. */
@Command(
    name = "sessions",
    description = {
      "Lists the connected clients, and what each of them holds.",
      "A session without an ID belongs to the daemon: it serves the callers of gRPC."
    },
    subcommands = SessionsCommand.EndCommand.class)
final class SessionsCommand extends DaemonCommand {
  @Override
  int run(KvtierClient client) {
    Report report = report(client);
    if (isJson()) {
      JsonArray all = new JsonArray();
      report.sessions().forEach(all::add);
      line(all.toString());
      return 0;
    }
    Table table =
        new Table(
            ">ID",
            "NAME",
            ">PROCESS",
            ">USER",
            ">LEASES",
            ">RESERVATIONS",
            ">PINS",
            ">IN FLIGHT",
            ">REQUESTS");
    DaemonInfo daemon = client.daemon();
    long mine = daemon == null ? 0 : daemon.sessionId();
    for (JsonObject session : report.sessions()) {
      long id = session.getLong("id", 0);
      table.row(
          id == 0 ? "-" : String.valueOf(id),
          session.getString("name", "")
              + (id == 0 ? " (the daemon's own)" : id == mine ? " (this command)" : ""),
          id == 0 ? "-" : String.valueOf(session.getLong("pid", 0)),
          id == 0 ? "-" : String.valueOf(session.getLong("uid", 0)),
          Units.count(session.getLong("leases", 0)),
          Units.count(session.getLong("reservations", 0)),
          Units.count(session.getLong("pins", 0)),
          Units.count(session.getLong("operations", 0)),
          Units.count(session.getLong("requests", 0)));
    }
    table.lines().forEach(this::line);
    return 0;
  }

  /** Ends one. */
  @Command(
      name = "end",
      description = {
        "Ends a session and frees what its client holds: leases, reservations, pins, and the memory"
            + " that it registered.",
        "Use it for a client that hangs. A client that runs connects again. Needs the role admin."
      })
  static final class EndCommand extends DaemonCommand {
    @Mixin private Confirmation confirmation;

    @Parameters(
        paramLabel = "ID",
        description = "ID of the session, as 'kvtier sessions' shows it.")
    private long id;

    @Override
    int run(KvtierClient client) {
      confirmation.require("End session " + id);
      say(ask(client, "session end " + id));
      return 0;
    }
  }
}
