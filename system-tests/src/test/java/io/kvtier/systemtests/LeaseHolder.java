package io.kvtier.systemtests;

import static io.kvtier.systemtests.Patterns.keys;

import io.kvtier.client.KvtierClient;
import io.kvtier.client.Leases;
import io.kvtier.client.Namespace;
import io.kvtier.client.Reservations;
import java.nio.file.Path;
import java.util.Map;

/** A client that takes leases and reservations, says so, and then only lives. */
final class LeaseHolder {
  private LeaseHolder() {}

  /** Arguments: the socket, and bytes of a block. */
  public static void main(String[] arguments) throws InterruptedException {
    try (KvtierClient client = KvtierClient.builder().socket(Path.of(arguments[0])).build()) {
      Namespace namespace =
          client.namespace("held", Integer.parseInt(arguments[1]), Map.of("model", "m"));
      try (Leases leases = client.blocking().acquire(namespace, keys(0, 8));
          Reservations reservations = client.blocking().reserve(namespace, keys(100, 8))) {
        System.out.println("holds " + leases.granted() + " and " + reservations.granted());
        Thread.sleep(Long.MAX_VALUE);
      }
    }
  }
}
