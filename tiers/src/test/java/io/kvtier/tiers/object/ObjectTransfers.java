package io.kvtier.tiers.object;

import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Random;

/** Transfers of blocks whose bytes follow from their numbers. */
final class ObjectTransfers {
  private final Arena arena;
  private final int blockBytes;
  private int made;

  ObjectTransfers(Arena arena, int blockBytes) {
    this.arena = arena;
    this.blockBytes = blockBytes;
  }

  Transfer store(int number) {
    Transfer transfer = transfer(number, Transfer.Kind.STORE);
    fill(number, transfer.bytes());
    transfer.checksum = Checksums.of(transfer.bytes());
    transfer.generation = number;
    transfer.depth = number;
    return transfer;
  }

  Transfer load(int number) {
    return transfer(number, Transfer.Kind.LOAD);
  }

  private Transfer transfer(int number, Transfer.Kind kind) {
    Transfer transfer = new Transfer(made++);
    transfer.kind = kind;
    for (int i = 0; i < Integer.BYTES; i++) {
      transfer.key[i] = (byte) (number >>> (8 * i));
    }
    transfer.keyBytes = 16;
    transfer.namespaceHigh = 1;
    transfer.namespaceLow = 2;
    transfer.slab = arena.allocate(blockBytes, 8);
    transfer.length = blockBytes;
    transfer.slotBytes = blockBytes;
    return transfer;
  }

  private static void fill(int number, MemorySegment bytes) {
    byte[] random = new byte[(int) bytes.byteSize()];
    new Random(number).nextBytes(random);
    bytes.copyFrom(MemorySegment.ofArray(random));
  }

  boolean holds(Transfer transfer, int number) {
    MemorySegment expected = arena.allocate(transfer.length, 8);
    fill(number, expected);
    return expected.mismatch(transfer.bytes()) == -1;
  }
}
