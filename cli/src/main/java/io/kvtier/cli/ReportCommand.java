package io.kvtier.cli;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.ParseException;
import com.eclipsesource.json.WriterConfig;
import io.kvtier.client.DaemonInfo;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.PingResult;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Status;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Everything that who mends a fault asks for first, in one archive. */
@Command(
    name = "report",
    mixinStandardHelpOptions = true,
    description = {
      "Writes a .tar.gz for a bug report: versions, configuration, state, counters, the findings"
          + " of 'kvtier doctor', the daemon's threads and limits, and the end of its log.",
      "Secrets of the configuration and the environment are left out, and everything that looks"
          + " like a secret. Token ids and block contents are never in it. All files are text: read"
          + " them before you send the archive."
    })
final class ReportCommand implements Callable<Integer> {
  private static final Duration TIMEOUT = Duration.ofSeconds(5);
  private static final int LOG_LINES = 3000;

  @Spec private CommandSpec spec;

  @Parameters(
      arity = "0..1",
      paramLabel = "FILE",
      description = "Name of the archive. Default: kvtier-report-DATE-TIME.tar.gz in this folder.")
  private @Nullable Path file;

  @Mixin private SocketOption socket;

  @Option(
      names = "--config",
      paramLabel = "FILE",
      description = "Configuration file to include if no daemon answers.")
  private @Nullable Path config;

  @Option(
      names = "--log",
      paramLabel = "FILE",
      description =
          "The daemon's log file. Default: the file that its standard error goes to, else the"
              + " journal of kvtierd.service.")
  private @Nullable Path log;

  @Option(names = "--json", description = "Prints JSON.")
  private boolean json;

  @Override
  public Integer call() {
    String name =
        "kvtier-report-"
            + LocalDateTime.now(ZoneId.systemDefault())
                .format(DateTimeFormatter.ofPattern("yyyyMMdd-HHmmss"));
    Path target = (file == null ? Path.of(name + ".tar.gz") : file).toAbsolutePath();
    try (ReportFiles files = new ReportFiles(name)) {
      long pid = daemon(files);
      ProcessFiles.add(files, pid);
      files.add("log.txt", ProcessFiles.log(log, pid, LOG_LINES));
      files.add(
          "doctor.json",
          DoctorCommand.findings(socket, config, List.of()).toString(WriterConfig.PRETTY_PRINT));
      files.pack(target);
      PrintWriter out = spec.commandLine().getOut();
      JsonArray names = new JsonArray();
      files.names().forEach(names::add);
      out.println(
          json
              ? new JsonObject().add("file", target.toString()).add("holds", names).toString()
              : target + "\ncontains " + String.join(", ", files.names()));
      out.flush();
      return 0;
    } catch (FileAlreadyExistsException e) {
      throw new Failure(Failure.USAGE, "'" + target + "' exists already: choose another name");
    } catch (IOException e) {
      throw new Failure(
          Failure.NEGATIVE,
          "the report could not be written to '" + target + "': " + e.getMessage());
    }
  }

  /** What the daemon says, and what its memory says when it does not answer; its process, or 0. */
  private long daemon(ReportFiles files) throws IOException {
    try (KvtierClient client = socket.open("kvtier report", TIMEOUT)) {
      PingResult ping = client.blocking().ping();
      DaemonInfo info = client.daemon();
      JsonObject status = new JsonObject();
      status.add("socket", client.socket().toString());
      status.add("ping", KeyedCommand.name(ping.status())).add("detail", ping.detail());
      status.add("round_trip_ns", ping.roundTripNs());
      client.sinceHeartbeat().ifPresent(age -> status.add("heartbeat_age_ms", age.toMillis()));
      if (info != null) {
        status.add("pid", info.pid()).add("version", info.version());
        status.add("start_time_ms", info.startTimeMs());
      }
      status.add("command_version", Kvtier.Version.number());
      files.add("status.json", status.toString(WriterConfig.PRETTY_PRINT));
      JsonObject counters = new JsonObject();
      for (Map.Entry<String, Long> counter : client.counters().entrySet()) {
        counters.add(counter.getKey(), counter.getValue());
      }
      files.add("counters.json", counters.toString(WriterConfig.PRETTY_PRINT));
      boolean answers = ping.status() == Status.OK;
      if (answers) {
        files.add("stats.json", client.blocking().stats().text());
      }
      configuration(files, client, answers, info);
      threads(files, client, answers, info);
      return info == null ? 0 : info.pid();
    }
  }

  private void configuration(
      ReportFiles files, KvtierClient client, boolean answers, @Nullable DaemonInfo info)
      throws IOException {
    if (answers) {
      TextResult shown = client.blocking().admin("config show");
      if (shown.status() == Status.OK) {
        files.add("config.json", shown.text());
        return;
      }
    }
    files.add(
        "config-of-file.json",
        configurationOfFile(info == null ? null : new RunningDaemon(info.pid()))
            .toString(WriterConfig.PRETTY_PRINT));
  }

  /** What a file says now, which no daemon has told to be in force; with the source. */
  private JsonObject configurationOfFile(@Nullable RunningDaemon daemon) {
    List<String> words = new ArrayList<>(List.of("config", "show", "--json", "--elsewhere"));
    Map<String, String> environment = daemon == null ? null : daemon.environment();
    List<String> started = daemon == null ? null : daemon.configuration();
    JsonObject json = new JsonObject();
    if (config != null) {
      words.add(config.toString());
      json.add("source", "'" + config + "', by --config of this command");
    } else if (started != null) {
      words.addAll(started);
      json.add("source", "the file and the settings that the daemon was started with, read now");
    } else {
      json.add("source", "the installed file, or the defaults: there is no daemon to ask");
    }
    json.add("environment", environment == null ? "of this command" : "of the daemon");
    try {
      Program.Ran ran =
          KvtierdProcess.run(environment == null ? System.getenv() : environment, words);
      return ran.isWell()
          ? json.add("keys", Json.parse(ran.out().strip()))
          : json.add("problem", ran.out() + ran.err());
    } catch (Failure | ParseException e) {
      return json.add("problem", String.valueOf(e.getMessage()));
    }
  }

  private static void threads(
      ReportFiles files, KvtierClient client, boolean answers, @Nullable DaemonInfo info)
      throws IOException {
    TextResult told = answers ? client.blocking().admin("threads") : null;
    if (told != null && told.status() == Status.OK) {
      files.add("threads.txt", told.text());
    } else if (info != null) {
      // Before the log is read: they may be written there.
      files.add("threads.txt", new RunningDaemon(info.pid()).threads());
    }
  }
}
