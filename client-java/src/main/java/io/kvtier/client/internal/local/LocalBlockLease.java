package io.kvtier.client.internal.local;

import io.kvtier.client.BlockLease;
import io.kvtier.client.BlockView;
import io.kvtier.client.Keys;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.internal.session.Call;
import io.kvtier.client.internal.session.Request;
import io.kvtier.client.internal.session.Session;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;

/** One lease at a time, without garbage. Confined to one thread. */
final class LocalBlockLease implements BlockLease {
  private final Operations operations;
  private final Request request = new Request(Verb.ACQUIRE, 0);
  private final LocalBlockView block = new LocalBlockView();

  LocalBlockLease(Operations operations) {
    this.operations = operations;
  }

  @Override
  public Status acquire(Namespace namespace, Keys keys, int index, Options options) {
    if (block.isShown()) {
      throw new IllegalStateException("this holds a lease already: release it first");
    }
    Operations.checkIndex(keys, index);
    Submitter submitter = operations.submitter();
    Session current = submitter.connector().current();
    if (current == null) {
      current = submitter.connector().session(submitter.deadlineNs(options));
    }
    if (current == null) {
      return Status.UNAVAILABLE;
    }
    Registrar.Registration registration = LocalNamespace.registrar(namespace).in(current);
    if (registration.status() != Status.OK) {
      return registration.status();
    }
    operations.fillAcquire(request, registration.id(), keys, index, options);
    Call submitted = current.submit(request, true);
    if (submitted == null) {
      return current.isAlive() ? Status.BUSY : Status.UNAVAILABLE;
    }
    Call answered = current.await(submitted);
    Status status = answered.blockStatus(0);
    if (status != Status.OK) {
      current.free(answered);
      return status;
    }
    status = block.show(current, answered);
    if (status != Status.OK) {
      current.release(answered, false);
    }
    return status;
  }

  @Override
  public BlockView block() {
    return block;
  }

  @Override
  public boolean release() {
    boolean counts = !block.hasEnded();
    close();
    return counts;
  }

  @Override
  public void close() {
    Session session = block.session();
    Call call = block.callOrNull();
    if (session != null && call != null) {
      boolean corrupt = block.isCorrupt();
      block.hide();
      session.release(call, corrupt);
    }
  }
}
