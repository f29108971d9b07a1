package io.kvtier.tiers.gpu;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.GranuleCodec;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** What the kernels of encoded blocks do, for a GPU without a kernel. */
public final class PlainGranules {
  /** The device's memory. */
  public interface Memory {
    /** The memory at an address. */
    MemorySegment at(long address, long bytes);
  }

  private final Memory memory;
  private final GranuleTable table;
  private final MemorySegment entries;
  private final BlockEncoding encoding;
  private final GranuleCodec codec;
  private final MemorySegment raw;

  /** Reads a table when the kernel would run. */
  public PlainGranules(GranuleTable table, Memory memory) {
    this.memory = memory;
    this.table = table;
    entries = memory.at(table.address(), RunTable.bytes(table.entries()));
    RunTable.requireForms(entries, table.forms(), table.entries());
    encoding = new BlockEncoding(table.kind(), table.elements(), 1);
    codec = new GranuleCodec(encoding);
    raw = MemorySegment.ofArray(new byte[encoding.rawGranuleBytes()]);
  }

  /** Encodes all granules. */
  public void encode() {
    forEach((entry, granule) -> {
      visit(entry, granule, (source, _, at, bytes) -> copy(raw, at, memory.at(source, bytes), 0));
      return codec.encode(raw, encoded(RunTable.target(entries, entry), granule));
    });
  }

  /** Decodes all granules. */
  public void decode() {
    forEach((entry, granule) -> {
      boolean isSound = codec.decode(encoded(RunTable.source(entries, entry), granule), raw);
      visit(entry, granule, (_, target, at, bytes) -> copy(memory.at(target, bytes), 0, raw, at));
      return isSound;
    });
  }

  private interface Work {
    boolean isSound(int entry, int granule);
  }

  private interface Piece {
    void take(long source, long target, long at, long bytes);
  }

  private void forEach(Work work) {
    for (int entry = 0; entry < table.entries(); entry++) {
      int granules = RunTable.length(entries, entry) / encoding.rawGranuleBytes();
      for (int granule = 0; granule < Math.min(granules, table.granules()); granule++) {
        if (!work.isSound(entry, granule)) {
          int place = RunTable.place(entries, entry);
          memory.at(table.flaws() + place, 1).set(ValueLayout.JAVA_BYTE, 0, (byte) 1);
        }
      }
    }
  }

  /** Visits the runs of a granule, with their places in the granule. */
  private void visit(int entry, int granule, Piece piece) {
    long[] at = {0};
    RunTable.visit(
        entries,
        entry,
        (long) granule * encoding.rawGranuleBytes(),
        encoding.rawGranuleBytes(),
        (source, target, bytes) -> {
          piece.take(source, target, at[0], bytes);
          at[0] += bytes;
        });
  }

  private MemorySegment encoded(long first, int granule) {
    int bytes = encoding.encodedGranuleBytes();
    return memory.at(first + (long) granule * bytes, bytes);
  }

  private static void copy(MemorySegment to, long toAt, MemorySegment from, long fromAt) {
    long bytes = Math.min(to.byteSize() - toAt, from.byteSize() - fromAt);
    MemorySegment.copy(from, fromAt, to, toAt, bytes);
  }
}
