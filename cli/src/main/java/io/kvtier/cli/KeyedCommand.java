package io.kvtier.cli;

import io.kvtier.client.CacheClient;
import io.kvtier.client.CacheNamespace;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierException;
import io.kvtier.client.Options;
import io.kvtier.protocol.Status;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** A command on single blocks. */
abstract class KeyedCommand extends DaemonCommand {
  private static final int GROUP_MAX = 0xffff;

  @Option(
      names = "--namespace",
      paramLabel = "NAME",
      required = true,
      description = "Name of the namespace, as 'kvtier namespaces' shows it.")
  private String namespaceName;

  @Option(
      names = "--group",
      paramLabel = "N",
      defaultValue = "0",
      description =
          "Number of the blocks' group. Leave it at 0 for blocks of KvtierConnector: there each"
              + " group of a hybrid model has a namespace of its own, with /group-1 in its name."
              + " KvtierTier uses vLLM's number of the group, which is 0 if the model has one kind"
              + " of KV cache. Other clients choose the group. Default: ${DEFAULT-VALUE}.")
  private int group;

  @Parameters(
      paramLabel = "KEYHEX",
      arity = "1..*",
      description =
          "Keys in hexadecimal, all of one length, in the order of their blocks in the prompt.")
  private List<String> keysHex;

  final String namespaceName() {
    return namespaceName;
  }

  final int group() {
    return group;
  }

  /** The keys as they were given. */
  final List<String> keysHex() {
    return keysHex;
  }

  final Options options() {
    return Options.DEFAULT.withGroup(group);
  }

  /** The keys; refuses a word that is not a key. */
  final Keys keys() {
    if (group < 0 || group > GROUP_MAX) {
      throw new Failure(Failure.USAGE, "--group is " + group + ", expected 0 to " + GROUP_MAX);
    }
    List<byte[]> keys = new ArrayList<>();
    for (String hex : keysHex) {
      try {
        keys.add(HexFormat.of().parseHex(hex));
      } catch (IllegalArgumentException e) {
        throw new Failure(
            Failure.USAGE,
            "'"
                + hex
                + "' is not a key in hexadecimal: expected two digits (0-9, a-f) for each byte");
      }
    }
    try {
      return Keys.of(keys);
    } catch (IllegalArgumentException e) {
      throw new Failure(Failure.USAGE, String.valueOf(e.getMessage()));
    }
  }

  /** The namespace, as the daemon knows it. */
  final CacheNamespace namespace(CacheClient client) {
    try {
      return known(client, report(client), namespaceName);
    } catch (KvtierException e) {
      throw new Failure(Failure.NEGATIVE, String.valueOf(e.getMessage()));
    }
  }

  /** Checks the status of an answer about a list of blocks; throws if the daemon did nothing. */
  static void requireDone(Status status, String what, String detail) {
    if (status == Status.UNAVAILABLE) {
      throw new Failure(Failure.NO_DAEMON, detail);
    }
    if (status != Status.OK) {
      throw new Failure(Failure.NEGATIVE, what + " failed: " + detail);
    }
  }

  static String name(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT);
  }
}
