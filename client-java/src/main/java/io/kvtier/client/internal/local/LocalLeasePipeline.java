package io.kvtier.client.internal.local;

import io.kvtier.client.Keys;
import io.kvtier.client.LeasePipeline;
import io.kvtier.client.Options;
import io.kvtier.client.internal.session.Call;
import io.kvtier.client.internal.session.Request;
import io.kvtier.client.internal.session.Session;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import org.jspecify.annotations.Nullable;

/** Many single-block acquires in flight at once, without garbage. Confined to one thread. */
final class LocalLeasePipeline implements LeasePipeline {
  private final Operations operations;
  private final Registrar namespace;
  private final Options options;
  private final Request request = new Request(Verb.ACQUIRE, 0);
  private final LocalBlockView block = new LocalBlockView();
  private final int capacity;
  private final @Nullable Call[] calls;
  private final long[] tags;
  private final Call[] read;
  private final long[] ids;
  private final long[] corruptId = new long[1];
  private @Nullable Session session;
  private int head;
  private int size;
  private int readCount;
  private int idCount;

  LocalLeasePipeline(Operations operations, Registrar namespace, int capacity, Options options) {
    if (capacity < 1) {
      throw new IllegalArgumentException("a pipeline takes at least one acquire, not " + capacity);
    }
    this.operations = operations;
    this.namespace = namespace;
    this.options = options;
    this.capacity = capacity;
    this.calls = new Call[capacity];
    this.tags = new long[capacity];
    this.read = new Call[capacity];
    this.ids = new long[capacity];
  }

  @Override
  public int size() {
    return size;
  }

  @Override
  public Status offer(Keys keys, int index, long tag) {
    Operations.checkIndex(keys, index);
    if (size == capacity) {
      return Status.BUSY;
    }
    Session current = session;
    if (size == 0 || current == null) {
      current = operations.submitter().connector().current();
      session = current;
      if (current == null) {
        return Status.UNAVAILABLE;
      }
    }
    Registrar.Registration registration = namespace.in(current);
    if (registration.status() != Status.OK) {
      return registration.status();
    }
    operations.fillAcquire(request, registration.id(), keys, index, options);
    Call call = current.submit(request, false);
    if (call == null) {
      return current.isAlive() ? Status.BUSY : Status.UNAVAILABLE;
    }
    int at = (head + size) % capacity;
    calls[at] = call;
    tags[at] = tag;
    size++;
    return Status.OK;
  }

  @Override
  public void flush() {
    Session some = session;
    if (some != null) {
      some.flush();
    }
  }

  @Override
  public int drain(Handler handler, int atLeast) {
    Session some = session;
    if (some == null || size == 0) {
      return 0;
    }
    some.poll();
    int handedOut = 0;
    try {
      while (size > 0) {
        Call call = calls[head];
        if (call == null) {
          break;
        }
        if (!call.isDone()) {
          if (handedOut >= atLeast) {
            break;
          }
          // No lease is held while waiting.
          giveBack(some);
          some.flush();
          call = some.await(call);
        }
        long tag = tags[head];
        calls[head] = null;
        head = head + 1 == capacity ? 0 : head + 1;
        size--;
        handedOut++;
        read[readCount++] = call;
        handOut(some, call, tag, handler);
      }
    } finally {
      giveBack(some);
    }
    return handedOut;
  }

  private void handOut(Session some, Call call, long tag, Handler handler) {
    Status status = call.blockStatus(0);
    boolean leased = status == Status.OK;
    if (leased) {
      status = block.show(some, call);
    }
    try {
      handler.onBlock(tag, status, block);
    } finally {
      if (leased && block.isCorrupt()) {
        corruptId[0] = call.holdId(0);
        some.giveBackCorrupt(corruptId, 1, call.context());
      } else if (leased) {
        ids[idCount++] = call.holdId(0);
      }
      block.hide();
    }
  }

  private void giveBack(Session some) {
    if (readCount > 0) {
      if (idCount > 0) {
        some.giveBack(Verb.RELEASE, ids, idCount);
      }
      some.free(read, readCount);
      readCount = 0;
      idCount = 0;
    }
  }

  @Override
  public void close() {
    int ignored = drain((tag, status, view) -> {}, Integer.MAX_VALUE);
  }
}
