package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.KvtierClient;
import java.util.concurrent.TimeUnit;
import picocli.CommandLine.Command;

/** Has the daemon read its configuration again. */
@Command(
    name = "reload",
    description = {
      "Makes the daemon read its configuration again, as SIGHUP does. Settings that can change"
          + " while it runs take effect; those that need a restart are listed.",
      "A configuration with a mistake changes nothing. Needs the role admin."
    },
    footer = {"", "Exit code: 0, or 1 if the configuration was refused."})
final class ReloadCommand extends DaemonCommand {
  private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(60);
  private static final long LOOK_MS = 50;

  @Override
  int run(KvtierClient client) {
    long number = parse(ask(client, "reload")).getLong("number", 0);
    long end = System.nanoTime() + WAIT_NS;
    JsonObject status = parse(ask(client, "reload status"));
    while (status.getBoolean("running", false) && status.getLong("number", 0) == number) {
      if (System.nanoTime() - end > 0) {
        throw new Failure(
            Failure.NEGATIVE, "the daemon has not finished reading; its log tells the result");
      }
      sleep();
      status = parse(ask(client, "reload status"));
    }
    String problem = status.getString("problem", "");
    if (isJson()) {
      line(status.toString());
    } else {
      int applied = list("changed", status.get("applied"));
      int restart = list("needs a restart", status.get("restart"));
      if (!problem.isEmpty()) {
        line("@|red refused|@ " + problem);
      } else if (applied + restart == 0) {
        line("no setting has changed");
      }
    }
    return problem.isEmpty() ? 0 : Failure.NEGATIVE;
  }

  private int list(String what, JsonValue lines) {
    JsonArray all = lines instanceof JsonArray array ? array : new JsonArray();
    all.forEach(each -> line(what + "  " + each.asString()));
    return all.size();
  }

  private static void sleep() {
    try {
      Thread.sleep(LOOK_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Failure(Failure.NEGATIVE, "interrupted; the daemon goes on reading");
    }
  }
}
