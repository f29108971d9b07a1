package io.kvtier.daemon.grpc;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Status;
import java.security.SecureRandom;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
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
   * @param blockBytes the bytes of a raw block
   * @param encoding how blocks may be encoded; null when they may not
   * @param registration the REGISTER that did it
   */
  record Namespace(
      long number,
      int id,
      String name,
      int blockBytes,
      @Nullable BlockEncoding encoding,
      IndexRequest registration) {}

  private final LongSupplier numbers;

  private final Map<Long, Namespace> known = new ConcurrentHashMap<>();
  private final Map<Integer, Namespace> byId = new HashMap<>();
  private final Map<Long, Integer> users = new HashMap<>();

  /** How many registrations of each name are on their way; a name without any is absent. */
  private final Map<String, Integer> registering = new HashMap<>();

  /** What waits for the end of the registrations of a name, by what it is about. */
  private final Map<String, Map<Object, Runnable>> waiting = new HashMap<>();

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

  /** A registration is on its way: no namespace of its name is forgotten before it is answered. */
  synchronized void registering(String name) {
    registering.merge(name, 1, Integer::sum);
  }

  /** A registration has been answered. What waited for the last one of its name runs now. */
  void registered(String name) {
    lastRegistered(name).forEach(Runnable::run);
  }

  private synchronized Collection<Runnable> lastRegistered(String name) {
    registering.computeIfPresent(name, (key, count) -> count > 1 ? count - 1 : null);
    Map<Object, Runnable> ready = registering.containsKey(name) ? null : waiting.remove(name);
    return ready == null ? List.of() : ready.values();
  }

  /** Has callers know a namespace, which the index has registered. */
  synchronized Namespace add(
      int id,
      String name,
      int blockBytes,
      @Nullable BlockEncoding encoding,
      IndexRequest registration) {
    Namespace there = byId.get(id);
    if (there != null) {
      return there;
    }
    Namespace namespace =
        new Namespace(unusedNumber(), id, name, blockBytes, encoding, registration);
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

  /**
   * Forgets a namespace that no connection uses. While its name is being registered, this waits.
   *
   * @param then what to do with a namespace that is forgotten; from any thread, at most once
   */
  void forgetUnused(long number, Consumer<Namespace> then) {
    Namespace forgotten = takeUnused(number, then);
    if (forgotten != null) {
      then.accept(forgotten);
    }
  }

  private synchronized @Nullable Namespace takeUnused(long number, Consumer<Namespace> then) {
    Namespace namespace = known.get(number);
    if (namespace == null
        || users.containsKey(number)
        || waits(namespace.name(), number, () -> forgetUnused(number, then))) {
      return null;
    }
    known.remove(number);
    byId.remove(namespace.id(), namespace);
    return namespace;
  }

  /**
   * Whether an event loop may end its own registration of a namespace that was forgotten. It may
   * not when the namespace is known again. While its name is being registered, the answer has to
   * wait.
   *
   * @param loop whose registration it is
   * @param again asks once more, on that loop; runs when the wait is over, from any thread
   */
  synchronized boolean mayEnd(Namespace namespace, Object loop, Runnable again) {
    return !waits(namespace.name(), List.of(loop, namespace.id()), again)
        && !byId.containsKey(namespace.id());
  }

  /** Keeps a task while a name is being registered; false when it is not. */
  private boolean waits(String name, Object about, Runnable task) {
    if (!registering.containsKey(name)) {
      return false;
    }
    waiting.computeIfAbsent(name, key -> new LinkedHashMap<>()).put(about, task);
    return true;
  }
}
