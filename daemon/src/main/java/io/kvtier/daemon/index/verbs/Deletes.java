package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.device.Peers;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.object.PresenceCache.Presence;
import org.jspecify.annotations.Nullable;

/** DELETE: takes blocks out of the tiers of this node, out of the object tier, and from regions. */
public final class Deletes {
  private final Directory directory;
  private final Namespaces namespaces;
  private final BlockStore store;
  private final Operations operations;
  private final Removals removals;
  private final Peers peers;

  public Deletes(
      Directory directory,
      Namespaces namespaces,
      BlockStore store,
      Operations operations,
      Removals removals,
      Peers peers) {
    this.directory = directory;
    this.namespaces = namespaces;
    this.store = store;
    this.operations = operations;
    this.removals = removals;
    this.peers = peers;
  }

  /** Deletes; answered when no later start of the daemon would find any of it again. */
  void delete(Session session, Request request) throws ProtocolViolation {
    Operation operation = operations.begin(session, request, request.count);
    if (operation == null) {
      return;
    }
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    for (int i = 0; i < request.count; i++) {
      Operations.decide(operation, i, deleteOne(namespace, request, i), TierId.NONE);
    }
    removals.await(operation);
    operations.endOrWait(session, operation, request);
  }

  /** Deletes a block here, and its object, whether or not anything is known of it. */
  private Status deleteOne(Namespaces.@Nullable Namespace namespace, Request request, int i) {
    int block = directory.find(request, i);
    boolean wasAdvertised = !peers.isEmpty() && peers.delete(request);
    if (block == Directory.NONE) {
      boolean isThere =
          wasAdvertised
              || (namespace != null
                  && store.objects().presenceOfSought(namespace, request.keyBytes, request.group)
                      == Presence.PRESENT);
      boolean isTaken =
          namespace == null
              || store.objects().deleteSought(namespace, request.keyBytes, request.group);
      return isTaken ? isThere ? Status.OK : Status.MISS : Status.BUSY;
    }
    if (!store.canBeDeleted(block)) {
      return wasAdvertised ? Status.OK : Status.MISS;
    }
    if (!store.objects().delete(block)) {
      return Status.BUSY;
    }
    store.delete(block);
    return Status.OK;
  }
}
