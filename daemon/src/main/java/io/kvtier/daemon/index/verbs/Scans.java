package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.move.Uploads;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.WaiterTable;
import io.kvtier.daemon.index.source.ObjectRemovals;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.transfer.LowerTier;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.util.HashMap;
import java.util.Map;

/** CLEAR and FLUSH: walks over the whole directory, some blocks a round. */
public final class Scans {
  private static final int BLOCKS_PER_ROUND = 1024;

  private final Directory directory;
  private final BlockStore store;
  private final Operations operations;
  private final Removals removals;
  private final WaiterTable storeWaiters;
  private final Map<Operation, ObjectRemovals.Clearing> clearings = new HashMap<>();
  private int scanning;

  public Scans(
      Directory directory,
      BlockStore store,
      Operations operations,
      Removals removals,
      int waitersMax) {
    this.directory = directory;
    this.removals = removals;
    this.store = store;
    this.operations = operations;
    this.storeWaiters = new WaiterTable(waitersMax);
  }

  /** Begins a scan; false when the request was refused. */
  boolean begin(Session session, Request request) throws ProtocolViolation {
    Operation operation = operations.begin(session, request, 0);
    if (operation == null) {
      return false;
    }
    operation.cursor = 0;
    operation.cursorEnd = directory.highWater();
    operation.scanning = true;
    scanning++;
    ObjectRemovals.Clearing clearing =
        operation.verb == Verb.CLEAR
            ? store.objects().removals().beginClear(operation.namespaceId)
            : null;
    if (clearing != null) {
      clearings.put(operation, clearing);
    }
    operations.promise(session, operation, request);
    return true;
  }

  /** Goes on with every scan. */
  public void advance() {
    if (scanning == 0) {
      return;
    }
    for (int i = 0; i < operations.max(); i++) {
      Operation operation = operations.at(i);
      if (operation.active && operation.scanning) {
        advance(operation);
      }
    }
  }

  private void advance(Operation operation) {
    // The scans share the looks of one round: a round takes no longer with many scans.
    int looks = Math.max(1, BLOCKS_PER_ROUND / scanning);
    int end = Math.min(operation.cursorEnd, operation.cursor + looks);
    while (operation.cursor < end) {
      int block = operation.cursor;
      if (directory.isUsed(block)
          && directory.isLinked(block)
          && isOf(operation, block)
          && store.canBeDeleted(block)) {
        if (operation.verb == Verb.CLEAR) {
          // Nothing of the namespace is stored until its objects have gone.
          boolean ignored = store.objects().forget(block);
          store.delete(block);
          operation.value++;
        } else if (!flush(operation, block)) {
          return;
        }
      }
      operation.cursor++;
    }
    if (operation.cursor >= operation.cursorEnd) {
      stop(operation);
      ObjectRemovals.Clearing clearing = clearings.remove(operation);
      if (clearing != null) {
        store.objects().removals().clear(clearing);
        removals.await(operation, clearing);
      } else if (operation.verb == Verb.CLEAR) {
        removals.await(operation);
      }
      if (operation.open == 0) {
        operations.complete(operations.sessionOf(operation), operation);
      }
    }
  }

  private boolean isOf(Operation operation, int block) {
    return operation.namespaceId == RequestDescriptor.NAMESPACE_ALL
        || directory.namespaceId(block) == operation.namespaceId;
  }

  private void stop(Operation operation) {
    if (operation.scanning) {
      operation.scanning = false;
      scanning--;
    }
  }

  /**
   * Has a block written to the tier below the first; false when the scan must try the block again.
   */
  private boolean flush(Operation operation, int block) {
    if (store.hasArrived(block)) {
      // The block was accepted, and becomes visible as soon as its checksum is made.
      return false;
    }
    if (!store.first().isResident(block)) {
      return true;
    }
    if (storeWaiters.isFull()) {
      // A store that begins now could end before this operation waits for it, and would begin once
      // more.
      return false;
    }
    LowerTier target = store.target(block);
    if (target == null) {
      // Its tenant may have no space below where others have some.
      return !store.objects().isConfigured() || flushToObject(operation, block);
    }
    if (store.stack().storedIn(block) != null) {
      return true;
    }
    ResidentTier tier = target.tier();
    if (tier.state(block) == CopyState.NONE
        && !store.evictions().startStore(block, target, false)) {
      if (target.mayStoreSoon()) {
        return false;
      }
      // The device is fenced, or every slot there is in use: the block stays where it is.
      operation.outcome = Status.IO_ERROR;
      return true;
    }
    return switch (tier.state(block)) {
      case STAGING -> storeWaiters.add(operation, block);
      // A damaged copy, which goes as soon as a transfer no longer needs it: then another is made.
      case LEAVING -> false;
      case RESIDENT, NONE, RESERVED -> true;
    };
  }

  /**
   * As {@link #flush}, to the object tier. The tier is also asked for a block that it refused a
   * while ago: the cause may be gone.
   */
  private boolean flushToObject(Operation operation, int block) {
    Uploads objects = store.uploads();
    if (directory.has(Directory.FLAG_OBJECT, block)) {
      return true;
    }
    if (!directory.has(Directory.FLAG_UPLOADING, block) && !objects.start(block)) {
      if (objects.mayStartSoon()) {
        return false;
      }
      operation.outcome = Status.IO_ERROR;
      return true;
    }
    return storeWaiters.add(operation, block);
  }

  /** A write to a lower tier ended: operations that wait for it are answered. */
  public void onStoreSettled(int block, Status status) {
    for (int waiter = storeWaiters.take(block);
        waiter != WaiterTable.NONE;
        waiter = storeWaiters.take(block)) {
      Operation operation = operations.at(storeWaiters.operation(waiter));
      storeWaiters.free(waiter);
      if (status == Status.OK) {
        operation.value++;
      } else if (status != Status.MISS) {
        operation.outcome = Status.IO_ERROR;
      }
      operations.closePlace(operation);
    }
  }

  /** Ends a scan before its time. */
  void cutShort(Operation operation, Status status) {
    operation.outcome = status;
    stop(operation);
    ObjectRemovals.Clearing clearing = clearings.remove(operation);
    if (clearing != null) {
      store.objects().removals().giveUp(clearing);
    }
    if (operation.open > 0) {
      storeWaiters.removeAll(operation.poolIndex);
    }
  }

  /** Whether there is work for the next round although nothing arrives. */
  public boolean isBusy() {
    return scanning > 0 && store.isIdle() && !store.isOutOfBudget();
  }
}
