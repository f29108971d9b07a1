package io.kvtier.daemon.grpc;

import io.kvtier.protocol.Status;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** The namespaces that remote callers registered, and how many connections use each. */
final class Namespaces {
  /**
   * What was registered.
   *
   * @param registration the REGISTER that did it
   */
  record Namespace(int blockBytes, IndexRequest registration) {}

  private final Map<Integer, Namespace> known = new ConcurrentHashMap<>();
  private final Map<Integer, Integer> users = new HashMap<>();
  private int registering;

  /** From any thread. */
  @Nullable Namespace find(int id) {
    return known.get(id);
  }

  Namespace get(int id) throws RefusedException {
    Namespace found = find(id);
    if (found == null) {
      throw new RefusedException(
          Status.NAMESPACE_UNKNOWN,
          "namespace " + Integer.toUnsignedString(id) + " is not registered: register it first");
    }
    return found;
  }

  /** A registration is on its way: no namespace is forgotten until {@link #registered}. */
  synchronized void registering() {
    registering++;
  }

  /**
   * A registration has been answered.
   *
   * @param namespace null where it was refused
   */
  synchronized void registered(int id, @Nullable Namespace namespace) {
    registering--;
    if (namespace != null) {
      known.put(id, namespace);
    }
  }

  /** One more connection uses a namespace. */
  synchronized void used(int id) {
    users.merge(id, 1, Integer::sum);
  }

  /** A connection uses a namespace no more. */
  synchronized void unused(int id) {
    users.computeIfPresent(id, (key, count) -> count > 1 ? count - 1 : null);
  }

  /** Forgets a namespace that nobody uses; false when somebody does, or is about to. */
  synchronized boolean forget(int id) {
    return registering == 0 && !users.containsKey(id) && known.remove(id) != null;
  }

  /** Whether a namespace is forgotten still: nobody registered it again, or is about to. */
  synchronized boolean isForgotten(int id) {
    return registering == 0 && !known.containsKey(id);
  }
}
