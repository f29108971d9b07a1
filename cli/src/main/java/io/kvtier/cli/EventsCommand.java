package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import io.kvtier.client.KvtierClient;
import io.kvtier.protocol.Printable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.temporal.ChronoUnit;
import org.jspecify.annotations.Nullable;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessageUnpacker;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** What the daemon tells routers. */
@Command(
    name = "events",
    mixinStandardHelpOptions = true,
    description = "Shows the KV events that the daemon publishes for routers.",
    subcommands = EventsCommand.Tail.class)
final class EventsCommand implements Runnable {
  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "'kvtier events' needs a subcommand: tail");
  }

  /** Prints them as they come. */
  @Command(
      name = "tail",
      description = {
        "Prints each batch of events when it is published: its number, its topic, and its events"
            + " as JSON.",
        "Earlier batches are not shown. Ctrl-C ends it."
      })
  static final class Tail extends DaemonCommand {
    private static final int LOOK_MS = 200;
    private static final int FRAMES = 3;

    @Option(
        names = "--endpoint",
        paramLabel = "tcp://HOST:PORT",
        description = "Address that events are published on. Default: the daemon tells it.")
    private @Nullable String endpoint;

    @Option(names = "--count", paramLabel = "N", description = "Ends after N batches.")
    private int batches = Integer.MAX_VALUE;

    @Override
    int run(KvtierClient client) {
      String from = endpoint == null ? local(published(report(client))) : endpoint;
      try (ZContext context = new ZContext()) {
        ZMQ.Socket socket = context.createSocket(SocketType.SUB);
        var _ = socket.setReceiveTimeOut(LOOK_MS);
        if (!socket.connect(from)) {
          throw new Failure(
              Failure.USAGE, "--endpoint is '" + from + "', expected tcp://HOST:PORT");
        }
        var _ = socket.subscribe(new byte[0]);
        if (!isJson()) {
          line("listening to " + from);
        }
        listen(client, socket);
        return 0;
      } catch (ZMQException | IllegalArgumentException e) {
        throw new Failure(Failure.USAGE, "can't listen to '" + from + "': " + e.getMessage());
      }
    }

    private void listen(KvtierClient client, ZMQ.Socket socket) {
      long expected = -1;
      int seen = 0;
      while (seen < batches && !Thread.currentThread().isInterrupted()) {
        out().flush();
        byte[] topic = socket.recv();
        if (topic == null) {
          if (!client.isConnected()) {
            throw new Failure(Failure.NO_DAEMON, "the daemon has ended");
          }
          continue;
        }
        byte[] number = socket.recv();
        byte[] batch = socket.recv();
        if (number == null || number.length != Long.BYTES || batch == null) {
          throw new Failure(
              Failure.NEGATIVE, "a message does not have the " + FRAMES + " frames of KV events");
        }
        long sequence = ByteBuffer.wrap(number).getLong();
        if (expected >= 0 && sequence != expected && !isJson()) {
          long missed = sequence - expected;
          line(
              "@|yellow "
                  + Units.counted(missed, "batch", "batches")
                  + (missed == 1 ? " was" : " were")
                  + " missed|@");
        }
        expected = sequence + 1;
        show(sequence, new String(topic, StandardCharsets.UTF_8), json(batch));
        seen++;
      }
    }

    private void show(long sequence, String topic, String batch) {
      if (isJson()) {
        String text = new JsonObject().add("sequence", sequence).add("topic", topic).toString();
        out()
            .println(
                Printable.of(text.substring(0, text.length() - 1) + ",\"batch\":" + batch + "}"));
      } else {
        out()
            .println(
                Printable.of(
                    LocalTime.now(ZoneId.systemDefault()).truncatedTo(ChronoUnit.MILLIS)
                        + "  "
                        + sequence
                        + (topic.isEmpty() ? "" : "  " + topic)
                        + "  "
                        + batch));
      }
    }

    private static String json(byte[] batch) {
      try (MessageUnpacker unpacker = MessagePack.newDefaultUnpacker(batch)) {
        return unpacker.unpackValue().toJson();
      } catch (IOException | RuntimeException e) {
        throw new Failure(Failure.NEGATIVE, "a batch is not msgpack: " + e.getMessage());
      }
    }

    /** With the port that the system chose, where it was to. */
    private static String published(Report report) {
      String published =
          report.json().get("events") instanceof JsonObject events
              ? events.getString("endpoint", "")
              : "";
      if (published.isEmpty()) {
        throw new Failure(
            Failure.NEGATIVE, "the daemon publishes no events: events.endpoint is empty");
      }
      return published;
    }

    /** A published address as somebody on this machine reaches it. */
    private static String local(String published) {
      return published
          .replace("tcp://*:", "tcp://127.0.0.1:")
          .replace("//0.0.0.0:", "//127.0.0.1:");
    }
  }
}
