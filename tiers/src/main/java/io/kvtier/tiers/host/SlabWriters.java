package io.kvtier.tiers.host;

import io.kvtier.tiers.files.FileErrors;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.BitSet;
import org.jspecify.annotations.Nullable;

/**
 * Which slabs a client ever had leave to write, since their memory was made: whoever takes the
 * memory over knows then in which slabs processes of before may still write. It is noted in a
 * mapped file beside the note on the memory, before the client hears of it, so that it also holds
 * when the daemon is killed.
 *
 * <p>A daemon that knows nothing of the file takes the memory over with a keeper of its own. So the
 * file counts only where it names the keeper that has the memory; else any slab may be written.
 *
 * <pre>
 *    0  u64 magic, 0 while the file is being written   8  u64 process of the keeper
 *   16  u64 its start, ticks since the machine's       24  u64 slabs
 *   32  u8 a slab: 1 where a client may write
 * </pre>
 */
public final class SlabWriters implements AutoCloseable {
  private static final String FILE = "writers";
  private static final long MAGIC = 0x6b76_7772_6974_6531L;
  private static final int KEEPER_OFFSET = 8;
  private static final int START_OFFSET = 16;
  private static final int HEADER_BYTES = 32;
  private static final int START_FIELD = 19;

  private final Arena arena = Arena.ofShared();
  private final MemorySegment noted;

  /**
   * Notes from now on.
   *
   * @param directory where the note on the memory is
   * @param keeper the process that keeps this daemon's memory
   * @param before the slabs that clients of earlier daemons may write
   */
  public SlabWriters(Path directory, int slabs, long keeper, BitSet before) throws IOException {
    ByteBuffer content = header(slabs, keeper);
    for (int slab = 0; slab < slabs; slab++) {
      content.put(HEADER_BYTES + slab, (byte) (before.get(slab) ? 1 : 0));
    }
    Path file = directory.resolve(FILE);
    try (FileChannel channel =
        FileChannel.open(
            file,
            StandardOpenOption.CREATE,
            StandardOpenOption.READ,
            StandardOpenOption.WRITE,
            StandardOpenOption.TRUNCATE_EXISTING)) {
      // Without the magic, and with all its bytes: a page that is missing could not be had later.
      content.putLong(0, 0);
      while (content.hasRemaining()) {
        channel.write(content);
      }
      noted = channel.map(FileChannel.MapMode.READ_WRITE, 0, content.capacity(), arena);
      noted.set(ValueLayout.JAVA_LONG, 0, MAGIC);
    } catch (IOException e) {
      arena.close();
      throw new IOException("'" + file + "' can't be written: " + FileErrors.words(e), e);
    }
  }

  private static ByteBuffer header(int slabs, long keeper) throws IOException {
    ByteBuffer content = ByteBuffer.allocate(HEADER_BYTES + slabs).order(ByteOrder.nativeOrder());
    return content
        .putLong(0, MAGIC)
        .putLong(KEEPER_OFFSET, keeper)
        .putLong(START_OFFSET, startOf(keeper))
        .putLong(24, slabs);
  }

  /**
   * The slabs that clients of earlier daemons may write.
   *
   * @param keeper the process that has the memory, and still runs
   * @return null when nobody can say
   */
  public static @Nullable BitSet ofEarlier(Path directory, int slabs, long keeper) {
    try {
      byte[] found = Files.readAllBytes(directory.resolve(FILE));
      byte[] expected = header(slabs, keeper).array();
      if (found.length != expected.length) {
        return null;
      }
      BitSet writable = new BitSet(slabs);
      for (int i = 0; i < found.length; i++) {
        if (i >= HEADER_BYTES) {
          writable.set(i - HEADER_BYTES, found[i] != 0);
        } else if (found[i] != expected[i]) {
          return null;
        }
      }
      return writable;
    } catch (IOException e) {
      return null;
    }
  }

  /** When a process was started: another one that got its number later was not. */
  private static long startOf(long process) throws IOException {
    String stat = Files.readString(Path.of("/proc/" + process + "/stat"));
    // The name stands in brackets, and may have any of these in it.
    String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
    try {
      return Long.parseLong(fields[START_FIELD]);
    } catch (NumberFormatException | ArrayIndexOutOfBoundsException e) {
      throw new IOException("/proc/" + process + "/stat has no start time: " + stat, e);
    }
  }

  /** A client gets leave to write a slab, and has not heard of it yet. */
  public void add(int slab) {
    noted.set(ValueLayout.JAVA_BYTE, HEADER_BYTES + (long) slab, (byte) 1);
  }

  /** Another process keeps the memory from now on; from any thread. */
  public void setKeeper(long keeper) throws IOException {
    long start = startOf(keeper);
    // Whoever reads it in between takes all slabs for writable.
    noted.set(ValueLayout.JAVA_LONG, 0, 0);
    VarHandle.storeStoreFence();
    noted.set(ValueLayout.JAVA_LONG, KEEPER_OFFSET, keeper);
    noted.set(ValueLayout.JAVA_LONG, START_OFFSET, start);
    VarHandle.storeStoreFence();
    noted.set(ValueLayout.JAVA_LONG, 0, MAGIC);
  }

  @Override
  public void close() {
    arena.close();
  }
}
