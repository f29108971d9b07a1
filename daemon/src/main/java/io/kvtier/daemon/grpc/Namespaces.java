package io.kvtier.daemon.grpc;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.protocol.Status;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.CRC32C;

/**
 * The namespaces that a tenant's remote callers registered, and how many connections use each. They
 * know them by numbers that follow from what was registered. The index's ids would not do: it gives
 * them anew in every start, and again to others, and a caller who still has one would get the
 * blocks of another namespace.
 */
final class Namespaces {
  /**
   * What was registered.
   *
   * @param number what remote callers know it by
   * @param id what the index knows it by
   * @param registration the REGISTER that did it
   */
  record Namespace(int number, int id, int blockBytes, IndexRequest registration) {}

  private final byte[] tenant;

  private final Map<Integer, Namespace> known = new ConcurrentHashMap<>();
  private final Map<Integer, Integer> users = new HashMap<>();
  private int registering;

  /** Those of a tenant, of which there are none yet. */
  Namespaces(String tenant) {
    this.tenant = tenant.getBytes(UTF_8);
  }

  /** The namespace with that number; from any thread. */
  Namespace get(int number) throws RefusedException {
    Namespace found = known.get(number);
    if (found == null) {
      throw new RefusedException(
          Status.NAMESPACE_UNKNOWN,
          "namespace "
              + Integer.toUnsignedString(number)
              + " is not registered: register it first");
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

  /**
   * Has callers know a namespace, which the index has registered.
   *
   * @param text name and properties
   */
  synchronized Namespace add(int id, byte[] text, int blockBytes, IndexRequest registration) {
    int number = number(text, blockBytes);
    // Of two that come to the same number, the second takes the next. 0 is a field left out.
    while (number == 0 || isOfAnother(number, id)) {
      number++;
    }
    Namespace namespace = new Namespace(number, id, blockBytes, registration);
    known.put(number, namespace);
    return namespace;
  }

  private int number(byte[] text, int blockBytes) {
    CRC32C sum = new CRC32C();
    sum.update(tenant);
    sum.update(ByteBuffer.allocate(Integer.BYTES).putInt(blockBytes).flip());
    sum.update(text);
    return (int) sum.getValue();
  }

  private boolean isOfAnother(int number, int id) {
    Namespace there = known.get(number);
    return there != null && there.id() != id;
  }

  /** One more connection uses a namespace. */
  synchronized void used(int number) {
    users.merge(number, 1, Integer::sum);
  }

  /** A connection uses a namespace no more. */
  synchronized void unused(int number) {
    users.computeIfPresent(number, (key, count) -> count > 1 ? count - 1 : null);
  }

  /** Forgets a namespace that nobody uses; false when somebody does, or is about to. */
  synchronized boolean forget(int number) {
    return registering == 0 && !users.containsKey(number) && known.remove(number) != null;
  }

  /** Whether a namespace is forgotten still: nobody registered it again, or is about to. */
  synchronized boolean isForgotten(int number) {
    return registering == 0 && !known.containsKey(number);
  }
}
