package io.kvtier.daemon.simulation;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.GranuleCodec;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.object.Deletions;
import io.kvtier.tiers.object.ObjectNames;
import io.kvtier.tiers.object.ObjectProbe;
import io.kvtier.tiers.object.StoreCall;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Leg;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/** A store of objects in simulated time: what is in it outlives the daemon. */
final class SimulatedObjects implements Leg, ObjectProbe {
  /** A block as it was stored. */
  private record Stored(
      Oracle.Key key, MemorySegment bytes, int checksum, int depth, long parent) {}

  /**
   * How often what goes wrong, from 0 to 1.
   *
   * @param errors of calls
   * @param rot of what is read
   * @param gone of what is read, which others deleted
   */
  record Faults(double errors, double rot, double gone) {
    static final Faults NONE = new Faults(0, 0, 0);
  }

  private static final long SEEN_NS = 1_000_000_000L;

  private final Map<String, Stored> objects = new HashMap<>();
  private final Faults faults;
  private final Simulation.Planted planted;
  private final SplittableRandom random;
  private long faultCount;

  /** Names of objects that others deleted while this node had their blocks. */
  private final Set<String> vanished = new HashSet<>();

  /** Names that were asked for, each with the time at which it was last seen there. */
  private final Map<String, Long> seen = new HashMap<>();

  /** Names that were seen in the last turn of the index, which relies on them in its next turn. */
  private final Set<String> seenInTurn = new HashSet<>();

  private final LongSupplier clock;

  /** Whether something was lost that was stored. */
  boolean isLossy;

  SimulatedObjects(
      Faults faults, Simulation.Planted planted, LongSupplier clock, SplittableRandom random) {
    this.clock = clock;
    this.faults = faults;
    this.planted = planted;
    this.random = random;
  }

  private boolean happens(double often) {
    boolean happens = often > 0 && random.nextDouble() < often;
    faultCount += happens ? 1 : 0;
    return happens;
  }

  long faultCount() {
    return faultCount;
  }

  boolean has(Oracle.Key key) {
    return objects.values().stream().anyMatch(one -> one.key.equals(key));
  }

  /**
   * Deletes an object for the cap.
   *
   * @param elsewhere the keys of blocks that are not lost by that; mostly one of those
   * @param silently a planted bug: nobody hears of it
   * @return its name, or null
   */
  @Nullable List<String> collect(
      SplittableRandom chance, Set<Oracle.Key> elsewhere, boolean silently) {
    List<String> names = new ArrayList<>(objects.keySet());
    if (silently || chance.nextInt(8) != 0) {
      names.removeIf(name -> !elsewhere.contains(Objects.requireNonNull(objects.get(name)).key));
    }
    if (names.isEmpty()) {
      return null;
    }
    names.sort(null);
    String name = names.get(chance.nextInt(names.size()));
    Stored gone = objects.remove(name);
    if (silently) {
      vanished.add(name);
    }
    isLossy |= gone != null && !elsewhere.contains(gone.key);
    return silently ? null : List.of(name);
  }

  /**
   * Others delete the object of a block that this node has in memory or on SSD, and nobody says so.
   * Not of one that was seen there just now: whoever relies on that immediately is right. Between
   * two turns of the index any time can pass.
   */
  void vanish(SplittableRandom chance, Set<Oracle.Key> here) {
    List<String> names = new ArrayList<>(objects.keySet());
    names.removeIf(name ->
        !here.contains(Objects.requireNonNull(objects.get(name)).key)
            || seenInTurn.contains(name)
            || clock.getAsLong() - seen.getOrDefault(name, Long.MIN_VALUE / 2) < SEEN_NS);
    if (!names.isEmpty()) {
      names.sort(null);
      String name = names.get(chance.nextInt(names.size()));
      objects.remove(name);
      vanished.add(name);
    }
  }

  /** The index begins a turn: it takes the answers to the questions of the turn before. */
  void turns() {
    seenInTurn.clear();
  }

  /** The memory is lost in which this node still had what has vanished; whether there was any. */
  boolean loseWhatVanished() {
    isLossy |= !vanished.isEmpty();
    return isLossy;
  }

  @Override
  public void run(Transfer transfer) {
    String name =
        ObjectNames.ofBlock(
            transfer.namespaceHigh,
            transfer.namespaceLow,
            transfer.key,
            transfer.keyBytes,
            transfer.group);
    transfer.status =
        transfer.kind == Transfer.Kind.STORE ? store(name, transfer) : load(name, transfer);
  }

  private Status store(String name, Transfer transfer) {
    MemorySegment bytes = transfer.bytes();
    if (Checksums.of(bytes) != transfer.checksum) {
      return Status.CORRUPT;
    }
    boolean fails = happens(faults.errors);
    // What was given up may have been done all the same.
    if (!fails || random.nextBoolean()) {
      long number = Words.getLong(MemorySegment.ofArray(words(transfer.key)), 8);
      String text = transfer.namespaceText;
      int namespace = text.contains("name=n0") && !text.contains(" blue\n") ? 0 : 1;
      objects.putIfAbsent(
          name,
          new Stored(
              new Oracle.Key(namespace, (int) number),
              MemorySegment.ofArray(bytes.toArray(ValueLayout.JAVA_BYTE)),
              transfer.checksum,
              transfer.depth,
              transfer.parent));
    }
    boolean lies = planted == Simulation.Planted.OBJECT_ERROR_COUNTS_AS_STORED;
    if (fails && !lies) {
      return random.nextInt(3) == 0 ? Status.DENIED : Status.IO_ERROR;
    }
    return Status.OK;
  }

  private static long[] words(byte[] key) {
    long[] words = new long[key.length / Long.BYTES];
    MemorySegment.copy(MemorySegment.ofArray(key), 0, MemorySegment.ofArray(words), 0, key.length);
    return words;
  }

  private Status load(String name, Transfer transfer) {
    if (happens(faults.errors)) {
      return random.nextBoolean() ? Status.IO_ERROR : Status.DEADLINE;
    }
    if (happens(faults.gone)) {
      isLossy |= objects.remove(name) != null;
    }
    Stored stored = objects.get(name);
    if (stored == null) {
      return Status.MISS;
    }
    if (planted == Simulation.Planted.LOSSY_OBJECT_COUNTS_AS_RAW && isEncoded(stored, transfer)) {
      return decode(stored, transfer);
    }
    MemorySegment bytes = transfer.bytes();
    if (stored.bytes.byteSize() != transfer.length) {
      if (planted != Simulation.Planted.OBJECT_OF_OTHER_FORM_LOADED) {
        return transfer.encoding == null ? Status.CORRUPT : Status.TOO_LARGE;
      }
      bytes.copyFrom(stored.bytes.asSlice(0, Math.min(transfer.length, stored.bytes.byteSize())));
      transfer.checksum = Checksums.of(bytes);
      return Status.OK;
    }
    bytes.copyFrom(stored.bytes);
    if (happens(faults.rot)) {
      long at = random.nextLong(bytes.byteSize());
      Words.putByte(bytes, at, Words.getByte(bytes, at) ^ 0x10);
    }
    transfer.checksum = stored.checksum;
    transfer.depth = stored.depth;
    transfer.parent = stored.parent;
    boolean verifies = planted != Simulation.Planted.OBJECT_LOADED_WITHOUT_VERIFYING;
    return verifies && Checksums.of(bytes) != stored.checksum ? Status.CORRUPT : Status.OK;
  }

  private static boolean isEncoded(Stored stored, Transfer transfer) {
    BlockEncoding encoding = transfer.encoding;
    return encoding != null && stored.bytes.byteSize() == encoding.encodedBytes();
  }

  /** A planted bug: the object counts as raw, and is decoded to the slot of a raw block. */
  private static Status decode(Stored stored, Transfer transfer) {
    BlockEncoding encoding = Objects.requireNonNull(transfer.encoding);
    if (transfer.length == encoding.encodedBytes()) {
      return Status.TOO_LARGE;
    }
    boolean isSound = new GranuleCodec(encoding).decode(stored.bytes, transfer.bytes());
    transfer.checksum = Checksums.of(transfer.bytes());
    transfer.depth = stored.depth;
    transfer.parent = stored.parent;
    return isSound ? Status.OK : Status.CORRUPT;
  }

  /** Planted bugs: what the index believes of an object is all that it is told. */
  private boolean isTrusted() {
    return planted == Simulation.Planted.OBJECT_TRUSTED_AT_EVICTION
        || planted == Simulation.Planted.COLLECTED_WITHOUT_A_WORD;
  }

  @Override
  public StoreCall head(String name, long timeoutNs) {
    if (happens(faults.errors)) {
      return StoreCall.of(new StoreResult.Unavailable("simulated"));
    }
    Stored stored = objects.get(name);
    if (stored != null) {
      seen.put(name, clock.getAsLong());
      seenInTurn.add(name);
    } else if (vanished.contains(name) && isTrusted()) {
      return StoreCall.of(new StoreResult.Done(1));
    }
    return StoreCall.of(
        stored == null ? new StoreResult.Absent() : new StoreResult.Done(stored.bytes.byteSize()));
  }

  /** Deletions of one life of the daemon: what is not done at its end will not be done. */
  Deletions deletions(LongSupplier clock) {
    return new SimulatedDeletions(clock, random.split());
  }

  private final class SimulatedDeletions implements Deletions {
    private record Deletion(String name, boolean isPrefix, long dueNs) {}

    private final LongSupplier clock;
    private final SplittableRandom chance;
    private final ArrayDeque<Deletion> waiting = new ArrayDeque<>();
    private long queued;
    private long done;

    SimulatedDeletions(LongSupplier clock, SplittableRandom chance) {
      this.clock = clock;
      this.chance = chance;
    }

    private boolean add(String name, boolean isPrefix) {
      if (chance.nextInt(100) == 0) {
        return false;
      }
      long latencyNs = chance.nextInt(50) == 0 ? chance.nextInt(1_000_000_000) : 1_000_000;
      long after = waiting.isEmpty() ? clock.getAsLong() : waiting.getLast().dueNs;
      waiting.add(new Deletion(name, isPrefix, Math.max(after, clock.getAsLong()) + latencyNs));
      queued++;
      return true;
    }

    private void advance() {
      while (!waiting.isEmpty() && waiting.element().dueNs <= clock.getAsLong()) {
        Deletion one = waiting.remove();
        done++;
        if (planted == Simulation.Planted.OBJECT_NOT_DELETED) {
          continue;
        }
        Set<String> names = new HashSet<>(objects.keySet());
        names.removeIf(name -> one.isPrefix ? !name.startsWith(one.name) : !name.equals(one.name));
        names.forEach(objects::remove);
        vanished.removeIf(name -> one.isPrefix ? name.startsWith(one.name) : name.equals(one.name));
      }
    }

    @Override
    public boolean delete(String name) {
      return add(name, false);
    }

    @Override
    public boolean deleteAll(String prefix) {
      return add(prefix, true);
    }

    @Override
    public long queued() {
      return queued;
    }

    @Override
    public long done() {
      advance();
      return done;
    }

    @Override
    public boolean isPending(String name) {
      advance();
      return waiting.stream().anyMatch(one -> !one.isPrefix && one.name.equals(name));
    }
  }

  @Override
  public String describe() {
    return "simulated";
  }
}
