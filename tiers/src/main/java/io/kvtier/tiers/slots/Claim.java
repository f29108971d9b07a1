package io.kvtier.tiers.slots;

import io.kvtier.protocol.linux.ProcessId;

/**
 * A slot that a client was told to write, and of which it has not said yet that it has written.
 *
 * @param region the slot's region
 * @param offset where the slot begins in it, a multiple of {@link #UNIT_BYTES}
 * @param bytes the slot's, a multiple of {@link #UNIT_BYTES}
 * @param writer the client's process
 */
public record Claim(int region, long offset, int bytes, ProcessId writer) {
  /** Slots begin and end at multiples of this. */
  public static final int UNIT_BYTES = 4096;
}
