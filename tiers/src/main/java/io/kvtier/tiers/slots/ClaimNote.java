package io.kvtier.tiers.slots;

import io.kvtier.protocol.linux.ProcessId;

/**
 * Where it is noted which slots clients are writing, so that whoever takes the memory over knows
 * which of them may be written still. Written by the index, before the client hears of the slot.
 */
public interface ClaimNote {
  /** For memory that goes with the daemon. */
  ClaimNote NONE =
      new ClaimNote() {
        @Override
        public void write(int place, int region, long offset, int bytes, ProcessId writer) {}

        @Override
        public void clear(int place) {}

        @Override
        public void doubt(int region) {}
      };

  /** A claim stands in a place from now on: see {@link Claim}. */
  void write(int place, int region, long offset, int bytes, ProcessId writer);

  /** No claim stands in a place any more. */
  void clear(int place);

  /** Clients of before may be writing anywhere in a region, as long as its memory lives. */
  void doubt(int region);
}
