package io.kvtier.tiers.ledger;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * The last leg of a device's stores: what was written is entered into the device's ledger, a group
 * at a time. Only then is it acknowledged. Forgetting goes the same way, in order with the stores.
 * A group that can't be entered fails as a whole, what was to be forgotten included: who asked for
 * that has to ask again, as a row that outlived its block would bring it back.
 */
public final class LedgerLeg {
  /** Makes what the device took durable against a loss of power. */
  @FunctionalInterface
  public interface DeviceSync {
    /** The device has it all. */
    void sync() throws IOException;
  }

  private final Ledger ledger;
  private final boolean isSynced;
  private final DeviceSync device;
  private final TroubleLog troubles;
  private final LedgerEntry entry = new LedgerEntry();
  private boolean isFailing;

  /** The texts by id, which may come to stand for another namespace. */
  private final Map<Integer, String> namespaces = new HashMap<>();

  /**
   * A leg over a ledger.
   *
   * @param isSynced whether an acknowledged store survives a loss of power, and not only a kill
   */
  public LedgerLeg(Ledger ledger, boolean isSynced, DeviceSync device) {
    this(ledger, isSynced, device, TroubleLog.NONE);
  }

  /**
   * The same.
   *
   * @param troubles told of groups that could not be entered
   */
  public LedgerLeg(Ledger ledger, boolean isSynced, DeviceSync device, TroubleLog troubles) {
    this.ledger = ledger;
    this.isSynced = isSynced;
    this.device = device;
    this.troubles = troubles;
  }

  /**
   * Enters a group and hands its transfers on.
   *
   * @param group STOREs that were written well, and FORGETs, in order
   */
  public void run(List<Transfer> group, Consumer<Transfer> done) {
    String failure = enter(group);
    for (Transfer transfer : group) {
      if (!failure.isEmpty()) {
        transfer.status = Status.IO_ERROR;
        transfer.cause = failure;
      }
      done.accept(transfer);
    }
  }

  /** Why the group could not be entered; empty when it was. */
  private String enter(List<Transfer> group) {
    try {
      boolean isWritten = false;
      for (Transfer transfer : group) {
        if (transfer.kind == Transfer.Kind.FORGET) {
          forget(transfer);
        } else if (!transfer.givenUp) {
          record(transfer);
          isWritten = true;
        }
      }
      if (isSynced && isWritten) {
        device.sync();
      }
      ledger.commit(isSynced);
    } catch (IOException e) {
      // The changes stay with the ledger, and go with the next group.
      isFailing = true;
      String why = FileErrors.withCure(FileErrors.words(e));
      troubles.tell("the ledger takes no rows", why);
      return why;
    }
    if (isFailing) {
      isFailing = false;
      troubles.tellOver("the ledger takes rows again");
    }
    return "";
  }

  /** A namespace's fingerprint, as ledgers take it, from its halves. */
  public static byte[] fingerprint(long high, long low) {
    return ByteBuffer.allocate(Ledger.FINGERPRINT_BYTES).putLong(high).putLong(low).array();
  }

  private void forget(Transfer transfer) {
    for (int i = 0; i < transfer.placeCount; i++) {
      ledger.forget(transfer.places[i]);
    }
  }

  private void record(Transfer transfer) {
    int namespace = transfer.namespaceId;
    if (!transfer.namespaceText.equals(namespaces.get(namespace))) {
      // In the same group as its first block: none is ever without.
      ledger.recordNamespace(
          namespace,
          fingerprint(transfer.namespaceHigh, transfer.namespaceLow),
          transfer.namespaceText);
      namespaces.put(namespace, transfer.namespaceText);
    }
    System.arraycopy(transfer.key, 0, entry.key, 0, entry.key.length);
    entry.keyBytes = transfer.keyBytes;
    entry.group = transfer.group;
    entry.namespaceHigh = transfer.namespaceHigh;
    entry.namespaceLow = transfer.namespaceLow;
    entry.length = transfer.length;
    entry.checksum = transfer.checksum;
    entry.generation = transfer.generation;
    entry.parent = transfer.parent;
    entry.depth = transfer.depth;
    entry.setAnnotation(transfer.annotation, transfer.annotationBytes);
    ledger.record(transfer.place(), entry);
  }
}
