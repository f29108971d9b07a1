package io.kvtier.tiers.host;

import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.slots.Claim;
import io.kvtier.tiers.slots.ClaimNote;
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
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Which slabs a client ever had leave to write, since their memory was made, and which slots
 * clients are writing: whoever takes the memory over knows then where processes of before may still
 * write. It is noted in a mapped file beside the note on the memory, before the client hears of it,
 * so that it also holds when the daemon is killed.
 *
 * <p>A daemon that knows nothing of the file takes the memory over with a keeper of its own. So the
 * file counts only where it names the keeper that has the memory. While the memory changes hands,
 * it names both.
 *
 * <pre>
 *    0  u64 magic
 *    8  u64 process of the keeper                      16  u64 its start, ticks since the machine's
 *   24  u64 process of the next keeper, 0: none        32  u64 its start
 *   40  u64 slabs                                      48  u64 places of claims
 *   56  u8 a slab: bit 0: a client may write; bit 1: it may be writing anywhere; padded to 8 bytes
 *       24 bytes a place:
 *         0  u32 slab, counted from 1; 0: no claim      4  u32 where its slot begins
 *         8  u32 how long the slot is; both in 4 KiB   12  u32 process of the client, 0: not known
 *        16  u64 its start, 0: not known
 * </pre>
 */
public final class SlabWriters implements ClaimNote, AutoCloseable {
  private static final String FILE = "writers";
  private static final long MAGIC = 0x6b76_7772_6974_6532L;
  private static final int NEXT_KEEPER = 24;
  private static final int HEADER_BYTES = 56;
  private static final int CLAIM_BYTES = 24;
  private static final byte WRITABLE = 1;
  private static final byte DOUBTFUL = 2;
  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
  private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;

  private final Arena arena = Arena.ofShared();
  private final MemorySegment noted;
  private final long claimsBegin;

  /**
   * What was noted by earlier daemons.
   *
   * @param writable slabs that their clients may write
   * @param doubtful slabs in which these may be writing anywhere
   * @param claims slots that these may be writing
   */
  public record Earlier(BitSet writable, BitSet doubtful, List<Claim> claims) {
    /** Of memory that was just made. */
    public static Earlier nothing() {
      return new Earlier(new BitSet(), new BitSet(), List.of());
    }
  }

  /**
   * Notes from now on.
   *
   * @param directory where the note on the memory is
   * @param places how many claims there can be
   * @param keeper the process that keeps this daemon's memory
   * @param before what holds already; its claims stand in the first places
   */
  public SlabWriters(Path directory, int slabs, int places, long keeper, Earlier before)
      throws IOException {
    claimsBegin = claimsBegin(slabs);
    ByteBuffer content =
        ByteBuffer.allocate(Math.toIntExact(claimsBegin + (long) places * CLAIM_BYTES))
            .order(ByteOrder.nativeOrder());
    ProcessId process = known(keeper);
    content.putLong(0, MAGIC).putLong(8, keeper).putLong(16, process.startTicks());
    content.putLong(40, slabs).putLong(48, places);
    for (int slab = 0; slab < slabs; slab++) {
      int bits =
          (before.writable.get(slab) ? WRITABLE : 0) | (before.doubtful.get(slab) ? DOUBTFUL : 0);
      content.put(HEADER_BYTES + slab, (byte) bits);
    }
    for (int place = 0; place < before.claims.size(); place++) {
      Claim claim = before.claims.get(place);
      int at = (int) claimsBegin + place * CLAIM_BYTES;
      content.putInt(at, claim.region() + 1).putInt(at + 4, units(claim.offset()));
      content.putInt(at + 8, units(claim.bytes())).putInt(at + 12, (int) claim.writer().number());
      content.putLong(at + 16, claim.writer().startTicks());
    }
    Path file = directory.resolve(FILE);
    Path written = directory.resolve(FILE + ".new");
    try (FileChannel channel =
        FileChannel.open(
            written,
            StandardOpenOption.CREATE,
            StandardOpenOption.READ,
            StandardOpenOption.WRITE,
            StandardOpenOption.TRUNCATE_EXISTING)) {
      // With all its bytes: a page that is missing could not be had later.
      while (content.hasRemaining()) {
        channel.write(content);
      }
      noted = channel.map(FileChannel.MapMode.READ_WRITE, 0, content.capacity(), arena);
      // What was noted before holds until this does.
      Files.move(
          written, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException e) {
      arena.close();
      throw new IOException("'" + file + "' can't be written: " + FileErrors.words(e), e);
    }
  }

  private static long claimsBegin(long slabs) {
    return HEADER_BYTES + (slabs + 7 & -8);
  }

  /**
   * What was noted of the clients of earlier daemons.
   *
   * @param keeper the process that has the memory, and still runs
   * @return null when nobody can say
   */
  public static @Nullable Earlier ofEarlier(Path directory, int slabs, long keeper) {
    try {
      byte[] bytes = Files.readAllBytes(directory.resolve(FILE));
      ByteBuffer found = ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder());
      if (bytes.length < HEADER_BYTES
          || found.getLong(0) != MAGIC
          || !(names(found, 8, keeper) || names(found, NEXT_KEEPER, keeper))
          || found.getLong(40) != slabs
          || bytes.length != claimsBegin(slabs) + found.getLong(48) * CLAIM_BYTES) {
        return null;
      }
      BitSet writable = new BitSet(slabs);
      BitSet doubtful = new BitSet(slabs);
      for (int slab = 0; slab < slabs; slab++) {
        writable.set(slab, (bytes[HEADER_BYTES + slab] & WRITABLE) != 0);
        doubtful.set(slab, (bytes[HEADER_BYTES + slab] & DOUBTFUL) != 0);
      }
      List<Claim> claims = new ArrayList<>();
      for (int at = (int) claimsBegin(slabs); at < bytes.length; at += CLAIM_BYTES) {
        int slab = found.getInt(at) - 1;
        if (slab >= 0 && slab < slabs) {
          claims.add(
              new Claim(
                  slab,
                  Integer.toUnsignedLong(found.getInt(at + 4)) * Claim.UNIT_BYTES,
                  found.getInt(at + 8) * Claim.UNIT_BYTES,
                  new ProcessId(
                      Integer.toUnsignedLong(found.getInt(at + 12)), found.getLong(at + 16))));
        }
      }
      return new Earlier(writable, doubtful, claims);
    } catch (IOException e) {
      return null;
    }
  }

  private static boolean names(ByteBuffer found, int at, long keeper) {
    ProcessId process = ProcessId.of(keeper);
    return process.isKnown()
        && found.getLong(at) == keeper
        && found.getLong(at + 8) == process.startTicks();
  }

  /**
   * Another keeper is about to have the memory: what was noted counts for that one, too. Does
   * nothing where nothing was noted.
   */
  public static void handOver(Path directory, long next) throws IOException {
    ByteBuffer named = ByteBuffer.allocate(16).order(ByteOrder.nativeOrder());
    named.putLong(0, next).putLong(8, ProcessId.of(next).startTicks());
    Path file = directory.resolve(FILE);
    if (!Files.isRegularFile(file) || Files.size(file) < HEADER_BYTES) {
      return;
    }
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
      while (named.hasRemaining()) {
        channel.write(named, NEXT_KEEPER + named.position());
      }
    }
  }

  /** A client gets leave to write a slab, and has not heard of it yet. */
  public void add(int slab) {
    mark(slab, WRITABLE);
  }

  @Override
  public void doubt(int slab) {
    mark(slab, DOUBTFUL);
  }

  private void mark(int slab, byte bit) {
    long at = HEADER_BYTES + (long) slab;
    noted.set(ValueLayout.JAVA_BYTE, at, (byte) (noted.get(ValueLayout.JAVA_BYTE, at) | bit));
  }

  private static int units(long bytes) {
    return (int) (bytes / Claim.UNIT_BYTES);
  }

  @Override
  public void write(int place, int slab, long offset, int bytes, ProcessId writer) {
    long at = claimsBegin + (long) place * CLAIM_BYTES;
    noted.set(INT, at + 4, units(offset));
    noted.set(INT, at + 8, units(bytes));
    noted.set(INT, at + 12, (int) writer.number());
    noted.set(LONG, at + 16, writer.startTicks());
    // Last: whoever finds a slab finds the rest.
    Words.putIntRelease(noted, at, slab + 1);
  }

  @Override
  public void clear(int place) {
    Words.putIntRelease(noted, claimsBegin + (long) place * CLAIM_BYTES, 0);
  }

  /** Another process keeps the memory from now on; from any thread. */
  public void setKeeper(long keeper) throws IOException {
    ProcessId process = known(keeper);
    // Named as the next one first: whoever reads in between finds it there.
    noted.set(LONG, NEXT_KEEPER, keeper);
    noted.set(LONG, NEXT_KEEPER + 8, process.startTicks());
    VarHandle.storeStoreFence();
    noted.set(LONG, 8, keeper);
    noted.set(LONG, 16, process.startTicks());
  }

  private static ProcessId known(long keeper) throws IOException {
    ProcessId process = ProcessId.of(keeper);
    if (!process.isKnown()) {
      throw new IOException("the process that keeps the memory, " + keeper + ", is not there");
    }
    return process;
  }

  @Override
  public void close() {
    arena.close();
  }
}
