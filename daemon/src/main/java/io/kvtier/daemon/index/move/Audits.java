package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.protocol.Status;

/**
 * Checks whether the bytes of first copies are still those that were accepted. Confined to the
 * index.
 */
public final class Audits {
  private final Directory directory;
  private final Copies copies;
  private final ResidentTier first;
  private final Mover mover;
  private final BlockListener listener;
  private final ClassQueues backlog;
  private final ClassQueues.Server serve = this::serve;

  /** Without a block to check yet. */
  Audits(MoveParts parts) {
    directory = parts.core().directory();
    copies = parts.copies();
    first = parts.stack().first();
    mover = parts.mover();
    listener = parts.listener();
    backlog = new ClassQueues(first.slots().classesMax(), 1, parts.core().limits().holdsMax());
  }

  /** A reader says that the bytes of a first copy are not those that were accepted. */
  public void doubt(int block) {
    // One audit at a time is enough. If the pipeline is full, the next reader reports the block
    // again.
    if (first.isResident(block)
        && !directory.has(Directory.FLAG_AUDITED, block)
        && mover.audit(block)) {
      directory.set(Directory.FLAG_AUDITED, block, true);
    }
  }

  /**
   * Checks a resident block, then tells the requests that wait for it.
   *
   * @return false when too many blocks wait to be checked
   */
  public boolean verify(int block) {
    if (directory.has(Directory.FLAG_AUDITED, block)) {
      // The check under way counts, also when the request that asked for it has ended.
      return true;
    }
    if (!mover.audit(block)) {
      if (!backlog.offer(first.sizeClass(block), 0, block)) {
        return false;
      }
      directory.addUses(block, 1);
    }
    directory.set(Directory.FLAG_AUDITED, block, true);
    return true;
  }

  /**
   * The checksum of a block was made again, and an encoded block was decoded.
   *
   * @param status OK, or CORRUPT when the block can't be decoded
   */
  void finish(int block, int checksum, Status status) {
    directory.set(Directory.FLAG_AUDITED, block, false);
    boolean isSound = status == Status.OK && checksum == directory.checksum(block);
    if (first.isResident(block) && !isSound) {
      copies.dropDamaged(block);
      listener.onFirstSettled(block, Status.MISS);
    } else {
      if (first.isResident(block)) {
        first.trust(block);
        listener.onFirstSettled(block, Status.OK);
      }
      copies.settle(block);
    }
  }

  /** Hands waiting blocks to the pipeline of checksums. */
  void advance() {
    if (backlog.size() > 0) {
      backlog.serve(first.slots().classes(), serve);
    }
  }

  private boolean serve(long item) {
    int block = (int) item;
    if (!first.isResident(block)) {
      directory.set(Directory.FLAG_AUDITED, block, false);
    } else if (!mover.audit(block)) {
      return false;
    }
    copies.endUse(block);
    return true;
  }

  /** How many blocks wait for the pipeline. */
  int waiting() {
    return backlog.size();
  }
}
