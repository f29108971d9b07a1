package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import io.kvtier.client.DaemonInfo;
import io.kvtier.client.KvtierClient;
import picocli.CommandLine.Command;

/** Who is connected. */
@Command(
    name = "sessions",
    description = {
      "Who is connected, and what each holds.",
      "A session without a number is the daemon's own: a thread of its gRPC server, whoever calls."
    })
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
            ">UNDER WAY",
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
}
