package io.kvtier.daemon.config;

import io.kvtier.daemon.config.KvtierdConfig.EventConsumer;
import io.kvtier.daemon.config.KvtierdConfig.EventForm;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Reads the keys that begin with {@code events}: the publisher of cache events. */
final class EventsSection {
  private static final int PORT_MAX = 65535;
  private static final Set<String> ANY_HOST = Set.of("tcp://*", "tcp://0.0.0.0");

  private final KeyReader keys;

  EventsSection(KeyReader keys) {
    this.keys = keys;
  }

  /** Reads and checks the keys; null if there is no endpoint. */
  KvtierdConfig.@Nullable EventsConfig read() {
    String endpoint = endpoint("events.endpoint", true);
    String replay = endpoint("events.replay_endpoint", false);
    String engine = endpoint("events.engine_endpoint", false);
    boolean connects = keys.flag("events.connect");
    EventConsumer consumer =
        keys.get("events.consumer", EventsSection::eventConsumer, "vllm, dynamo or llm-d");
    EventForm form =
        keys.get(
            "events.form",
            text -> eventForm(text, consumer),
            "map, named or positional, or nothing for the consumer's own");
    boolean hashesAreBytes =
        keys.get("events.hashes", EventsSection::hashesAreBytes, "integer or bytes");
    String topic = keys.text("events.topic");
    keys.require(
        "events.topic",
        endpoint.isEmpty() || consumer != EventConsumer.LLM_D || topic.matches("kv@[^@]+@[^@]+"),
        "kv@POD@MODEL, which llm-d takes apart");
    int ranks = keys.number("events.ranks", 1, 1024);
    if (!keys.isMistaken("events.endpoint")) {
      keys.require(
          "events.replay_endpoint",
          replay.isEmpty() || !endpoint.isEmpty(),
          "nothing, where there is no events.endpoint");
      keys.require(
          "events.engine_endpoint",
          engine.isEmpty() || !endpoint.isEmpty(),
          "nothing, where there is no events.endpoint");
    }
    keys.require(
        "events.ranks",
        ranks == 1 || endpoint.isEmpty() || port(endpoint) > 0,
        "1, where the system chooses the port of events.endpoint: the ports of ranks follow it");
    requirePorts("events.endpoint", endpoint, ranks);
    requirePorts("events.replay_endpoint", replay, ranks);
    requirePorts("events.engine_endpoint", engine, ranks);
    keys.require(
        "events.replay_endpoint",
        endpoint.isEmpty()
            || replay.isEmpty()
            || connects
            || Math.abs(port(replay) - port(endpoint)) >= ranks
            || !canShareAHost(replay, endpoint),
        "other ports than those of events.endpoint, '"
            + endpoint
            + "': each of events.ranks ("
            + ranks
            + ") has one of either, from there on");
    long queueBytes = keys.size("events.queue_bytes", 1 << 16, 1L << 30);
    keys.require(
        "events.queue_bytes", Long.bitCount(queueBytes) == 1, "a power of two, such as 16MiB");
    KvtierdConfig.EventsConfig events =
        new KvtierdConfig.EventsConfig(
            new KvtierdConfig.EventEndpoints(endpoint, connects, replay, engine),
            new KvtierdConfig.EventFormat(
                topic,
                form,
                hashesAreBytes,
                new KvtierdConfig.EventMedia(
                    medium("events.media.host", List.of("CPU", "CPU", "cpu"), consumer),
                    medium("events.media.ssd", List.of("DISK", "DISK", "disk"), consumer),
                    medium(
                        "events.media.object",
                        List.of("STORAGE", "EXTERNAL", "object"),
                        consumer))),
            keys.list("events.namespaces"),
            new KvtierdConfig.EventRanks(keys.number("events.rank_first", 0, 1 << 20), ranks),
            keys.duration("events.interval"),
            new KvtierdConfig.EventBuffers(
                queueBytes,
                keys.number("events.replay_batches", 1, 1 << 24),
                keys.size("events.replay_bytes", 1 << 16, 1L << 40),
                keys.number("events.high_water_mark", 1, 1 << 24)));
    return endpoint.isEmpty() ? null : events;
  }

  private String endpoint(String key, boolean mayBeChosenByTheSystem) {
    return keys.get(
        key,
        text -> {
          if (!text.isEmpty()
              && (!text.matches("tcp://.+:([0-9]{1,5}|\\*)")
                  || port(text) > PORT_MAX
                  || (port(text) == 0 && !mayBeChosenByTheSystem))) {
            throw new IllegalArgumentException();
          }
          return text;
        },
        mayBeChosenByTheSystem
            ? "tcp://HOST:PORT, such as tcp://*:5557, or nothing"
            : "tcp://HOST:PORT with the port's number, or nothing");
  }

  /** The port of an endpoint; 0 if the system chooses the port or there is no endpoint. */
  private static int port(String endpoint) {
    String port = endpoint.substring(endpoint.lastIndexOf(':') + 1);
    return port.isEmpty() || port.equals("*") ? 0 : Integer.parseInt(port);
  }

  private void requirePorts(String key, String endpoint, int ranks) {
    int most = PORT_MAX + 1 - ranks;
    keys.require(
        key,
        port(endpoint) <= most,
        "a port up to " + most + ": each of events.ranks (" + ranks + ") has one, from there on");
  }

  private static boolean canShareAHost(String endpoint, String other) {
    String host = endpoint.substring(0, endpoint.lastIndexOf(':'));
    String otherHost = other.substring(0, other.lastIndexOf(':'));
    return host.equals(otherHost) || ANY_HOST.contains(host) || ANY_HOST.contains(otherHost);
  }

  private static EventConsumer eventConsumer(String text) {
    return switch (text) {
      case "vllm" -> EventConsumer.VLLM;
      case "dynamo" -> EventConsumer.DYNAMO;
      case "llm-d" -> EventConsumer.LLM_D;
      default -> throw new IllegalArgumentException();
    };
  }

  private static EventForm eventForm(String text, EventConsumer consumer) {
    return switch (text) {
      case "" -> consumer == EventConsumer.LLM_D ? EventForm.POSITIONAL : EventForm.MAP;
      case "map" -> EventForm.MAP;
      case "named" -> EventForm.NAMED;
      case "positional" -> EventForm.POSITIONAL;
      default -> throw new IllegalArgumentException();
    };
  }

  private static boolean hashesAreBytes(String text) {
    return switch (text) {
      case "integer" -> false;
      case "bytes" -> true;
      default -> throw new IllegalArgumentException();
    };
  }

  /**
   * The name of a tier in events: the consumer's own name unless the key has another one; empty for
   * {@code none}.
   */
  private String medium(String key, List<String> usual, EventConsumer consumer) {
    String text = keys.text(key);
    return switch (text) {
      case "" ->
          switch (consumer) {
            case VLLM -> usual.get(0);
            case DYNAMO -> usual.get(1);
            case LLM_D -> usual.get(2);
          };
      case "none" -> "";
      default -> text;
    };
  }
}
