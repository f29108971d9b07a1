package io.kvtier.client.internal.session;

import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Queue;
import org.jspecify.annotations.Nullable;

/**
 * What is said to the daemon without asking for an answer: holds that are given back, and
 * cancellations. Holds that find no room in the ring are owed, and written when there is some.
 * Under the session's lock.
 */
final class Debts {
  private static final class Owed {
    final Verb verb;
    final int flags;
    final long[] ids;
    final @Nullable TraceContext context;

    Owed(Verb verb, int flags, long[] ids, @Nullable TraceContext context) {
      this.verb = verb;
      this.flags = flags;
      this.ids = ids;
      this.context = context;
    }
  }

  private final RequestRing requests;
  private final Request silent = new Request();
  private final Queue<Owed> owed = new ArrayDeque<>();

  Debts(RequestRing requests) {
    this.requests = requests;
  }

  /**
   * Gives holds back.
   *
   * @param verb RELEASE or ABORT
   * @param flags {@link RequestDescriptor#FLAG_CORRUPT}, or 0
   * @param context what to say this in, where it is worth that
   */
  void owe(Verb verb, int flags, long[] ids, int count, @Nullable TraceContext context)
      throws ProtocolViolation {
    pay();
    for (int from = 0; from < count; from += Protocol.KEYS_MAX) {
      int some = Math.min(Protocol.KEYS_MAX, count - from);
      if (!owed.isEmpty() || !write(verb, flags, ids, from, some, context)) {
        owed.add(new Owed(verb, flags, Arrays.copyOfRange(ids, from, from + some), context));
      }
    }
  }

  /** Writes what is owed, as far as there is room. */
  void pay() throws ProtocolViolation {
    for (Owed some = owed.peek();
        some != null && write(some.verb, some.flags, some.ids, 0, some.ids.length, some.context);
        some = owed.peek()) {
      owed.remove();
    }
  }

  /** The session is over, and its holds with it. */
  void clear() {
    owed.clear();
  }

  private boolean write(
      Verb verb, int flags, long[] ids, int from, int count, @Nullable TraceContext context)
      throws ProtocolViolation {
    silent.verb = verb;
    silent.flags = flags | RequestDescriptor.FLAG_SILENT;
    silent.argument = 0;
    silent.ids = ids;
    silent.from = from;
    silent.count = count;
    silent.context = context;
    return requests.write(silent, 0);
  }

  /** Asks the daemon to give a request up. In a full ring it goes on to its deadline. */
  void cancel(long correlationId) throws ProtocolViolation {
    silent.verb = Verb.CANCEL;
    silent.flags = RequestDescriptor.FLAG_SILENT;
    silent.argument = correlationId;
    silent.ids = null;
    silent.count = 0;
    silent.context = null;
    boolean ignored = requests.write(silent, 0);
  }
}
