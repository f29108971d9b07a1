package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.KvtierClient;
import java.util.ArrayList;
import java.util.List;

/** Has a daemon hand its blocks to other nodes, and shows how far that is. */
final class HandOver {
  private static final long LOOK_MS = 100;
  private static final long SHOW_NS = 2_000_000_000L;

  private final DaemonCommand shown;
  private final KvtierClient client;
  private final String command;

  /**
   * @param command starts the hand-over in the daemon
   */
  HandOver(DaemonCommand shown, KvtierClient client, String command) {
    this.shown = shown;
    this.client = client;
    this.command = command;
  }

  /** Throws if no other node can take blocks. A drain would then only refuse new blocks. */
  void requireNode() {
    JsonObject nodes = DaemonCommand.parse(DaemonCommand.ask(client, "nodes"));
    for (JsonValue peer : nodes.get("peers").asArray()) {
      if (peer.asObject().getString("state", "").equals("connected")) {
        return;
      }
    }
    throw new Failure(
        Failure.NEGATIVE,
        "no other node is connected: kvtier nodes shows the reasons; the daemon is not drained");
  }

  /** Waits until the end; returns whether the other nodes have all blocks that they should. */
  boolean run() {
    DaemonCommand.ask(client, command);
    JsonObject progress = look();
    long shownNs = System.nanoTime();
    while (progress.getBoolean("running", false)) {
      pause();
      progress = look();
      if (!shown.isJson() && System.nanoTime() - shownNs >= SHOW_NS) {
        shown.line(words(progress));
        shownNs = System.nanoTime();
      }
    }
    if (shown.isJson()) {
      shown.line(progress.toString());
    } else {
      String why = progress.getString("why", "");
      shown.line(words(progress) + (why.isEmpty() ? "" : "; not all had their turn: " + why));
    }
    return progress.getBoolean("whole", false) && progress.get("refused").asObject().isEmpty();
  }

  private JsonObject look() {
    return DaemonCommand.parse(DaemonCommand.ask(client, "nodes drain status"));
  }

  private static void pause() {
    try {
      Thread.sleep(LOOK_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Failure(
          Failure.NEGATIVE, "interrupted; the daemon goes on until its deadline or 'drain --off'");
    }
  }

  private static String words(JsonObject progress) {
    List<String> parts = new ArrayList<>();
    parts.add(
        Units.counted(progress.getLong("pushed", 0), "block")
            + " of "
            + Units.count(progress.getLong("blocks", 0))
            + " pushed ("
            + Units.bytes(progress.getLong("pushed_bytes", 0))
            + ")");
    long present = progress.getLong("present", 0);
    if (present > 0) {
      parts.add(Units.count(present) + " were there already");
    }
    long gone = progress.getLong("gone", 0);
    if (gone > 0) {
      parts.add(Units.count(gone) + " left memory meanwhile");
    }
    progress
        .get("refused")
        .asObject()
        .forEach(reason ->
            parts.add(
                Units.count(reason.getValue().asLong())
                    + " not taken: "
                    + reason.getName().replace('_', ' ')));
    return String.join(", ", parts);
  }
}
