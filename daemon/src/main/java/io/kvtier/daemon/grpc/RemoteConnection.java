package io.kvtier.daemon.grpc;

import com.google.protobuf.ByteString;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Verb;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** What a connection holds or has going on, so that its end can end that too. */
final class RemoteConnection {
  private record PinKey(int namespaceId, int group, ByteString key) {}

  private final IndexGateway gateway;
  private final Namespaces namespaces;
  private final Consumer<Namespaces.Namespace> forget;
  private final Map<Long, Call<?>> operations = new HashMap<>();
  private final Set<Call<?>> calls = Collections.newSetFromMap(new IdentityHashMap<>());
  private final Map<PinKey, Integer> pins = new HashMap<>();

  /** The numbers of the namespaces that it registered. */
  private final Set<Long> used = new HashSet<>();

  private boolean closed;

  /**
   * A new connection.
   *
   * @param forget has every event loop forget a namespace that no connection uses
   */
  RemoteConnection(
      IndexGateway gateway, Namespaces namespaces, Consumer<Namespaces.Namespace> forget) {
    this.gateway = gateway;
    this.namespaces = namespaces;
    this.forget = forget;
  }

  /** The connection registered a namespace. */
  void uses(long number) {
    if (!closed && used.add(number)) {
      namespaces.used(number);
    }
  }

  /** Has a namespace forgotten whose registration was answered after the connection's end. */
  void forgetIfEnded(long number) {
    if (closed) {
      usesNoMore(number);
    }
  }

  /** The connection needs a namespace no more, which is forgotten when no other one uses it. */
  void usesNoMore(long number) {
    if (used.remove(number)) {
      namespaces.unused(number);
    }
    namespaces.forgetUnused(number, forget);
  }

  void opened(Call<?> call) {
    if (!call.isOver()) {
      calls.add(call);
    }
  }

  /** Makes a call known by the number that its client gave it; 0 is no number. */
  void began(long operationId, Call<?> call) {
    if (operationId != 0) {
      operations.put(operationId, call);
    }
  }

  void finished(long operationId, Call<?> call) {
    calls.remove(call);
    if (operationId != 0) {
      operations.remove(operationId, call);
    }
  }

  @Nullable Call<?> operation(long operationId) {
    return operations.get(operationId);
  }

  /** A key was pinned for this connection; if that has ended meanwhile, the pin is given back. */
  void pinned(KeyBatch keys, int place) {
    if (closed) {
      unpin(keys.only(place));
    } else {
      pins.merge(pinKey(keys, place), 1, Integer::sum);
    }
  }

  /** Takes one pin of a key off the books; false when the connection has none. */
  boolean unpinned(KeyBatch keys, int place) {
    PinKey key = pinKey(keys, place);
    Integer count = pins.get(key);
    if (count == null) {
      return false;
    }
    if (count == 1) {
      pins.remove(key);
    } else {
      pins.put(key, count - 1);
    }
    return true;
  }

  private static PinKey pinKey(KeyBatch keys, int place) {
    return new PinKey(keys.namespaceId(), keys.group(), keys.keys().get(place));
  }

  private void unpin(KeyBatch key) {
    gateway.submit(
        IndexRequest.ofKeys(Verb.UNPIN, key, 0, RequestDescriptor.PRIORITY_NORMAL, 0), a -> {});
  }

  /** Whether no call is under way, and no pin held. */
  boolean isIdle() {
    return calls.isEmpty() && pins.isEmpty();
  }

  /** The connection has ended, and with it its calls; its pins are released. */
  void close() {
    closed = true;
    for (Call<?> call : calls.toArray(Call<?>[]::new)) {
      call.onBroken();
    }
    pins.forEach((pin, count) -> {
      KeyBatch key =
          new KeyBatch(
              pin.namespaceId, pin.group, List.of(pin.key), pin.key.size(), ByteString.EMPTY, 0);
      for (int i = 0; i < count; i++) {
        unpin(key);
      }
    });
    pins.clear();
    List.copyOf(used).forEach(this::usesNoMore);
  }
}
