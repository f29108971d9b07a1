package io.kvtier.daemon.grpc;

import io.kvtier.protocol.Status;
import java.security.SecureRandom;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The namespaces that a tenant's remote callers registered, and how many connections use each.
 *
 * <p>Callers know a namespace by a number that is drawn at random. A call may bring any number: one
 * that its sender kept over a restart of the daemon, or over the namespace's end. Such a number
 * must name nothing. The index's ids would not do, as another start gives them to other namespaces.
 * Nor would a checksum of what was registered: whoever chooses the properties chooses the checksum.
 */
final class Namespaces {
  /**
   * What was registered.
   *
   * @param number what remote callers know it by; never 0
   * @param id what the index knows it by
   * @param registration the REGISTER that did it
   */
  record Namespace(long number, int id, int blockBytes, IndexRequest registration) {}

  private final LongSupplier numbers;

  private final Map<Long, Namespace> known = new ConcurrentHashMap<>();
  private final Map<Integer, Namespace> byId = new HashMap<>();
  private final Map<Long, Integer> users = new HashMap<>();
  private int registering;

  /** Those of a tenant, of which there are none yet. */
  Namespaces() {
    this(new SecureRandom()::nextLong);
  }

  /** With numbers of one's own. */
  Namespaces(LongSupplier numbers) {
    this.numbers = numbers;
  }

  /** The namespace with that number; from any thread. */
  Namespace get(long number) throws RefusedException {
    Namespace found = known.get(number);
    if (found == null) {
      throw new RefusedException(
          Status.NAMESPACE_UNKNOWN,
          "namespace "
              + Long.toUnsignedString(number)
              + " is not known: expected a number that Register gave since the daemon's last start"
              + " and since the namespace's last Unregister; call Register again");
    }
    return found;
  }

  /** A registration is on its way: no namespace is forgotten until {@link #registered}. */
  synchronized void registering() {
    registering++;
  }

  /** A registration has been answered. */
  synchronized void registered() {
    registering--;
  }

  /** Has callers know a namespace, which the index has registered. */
  synchronized Namespace add(int id, int blockBytes, IndexRequest registration) {
    Namespace there = byId.get(id);
    if (there != null) {
      return there;
    }
    Namespace namespace = new Namespace(unusedNumber(), id, blockBytes, registration);
    known.put(namespace.number(), namespace);
    byId.put(id, namespace);
    return namespace;
  }

  /** Without a sign: not every language has numbers of 64 bits that have none. */
  private long unusedNumber() {
    long number;
    do {
      number = numbers.getAsLong() & Long.MAX_VALUE;
    } while (number == 0 || known.containsKey(number));
    return number;
  }

  /** One more connection uses a namespace. */
  synchronized void used(long number) {
    users.merge(number, 1, Integer::sum);
  }

  /** A connection uses a namespace no more. */
  synchronized void unused(long number) {
    users.computeIfPresent(number, (key, count) -> count > 1 ? count - 1 : null);
  }

  /** Forgets a namespace that no connection uses; null when one does, or is about to. */
  synchronized @Nullable Namespace forget(long number) {
    if (registering > 0 || users.containsKey(number)) {
      return null;
    }
    Namespace forgotten = known.remove(number);
    return forgotten != null && byId.remove(forgotten.id(), forgotten) ? forgotten : null;
  }

  /** Whether a namespace is forgotten still: nobody registered it again, or is about to. */
  synchronized boolean isForgotten(Namespace namespace) {
    return registering == 0 && !byId.containsKey(namespace.id());
  }
}
