package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.Chains;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Which blocks stand in which regions of engines' GPU memory, as their owners say: a key has up to
 * {@link #OWNERS_MAX} of them. No block of the directory: the engine's memory is the engine's, and
 * what it says of it ends with its revocation, or with its session.
 *
 * <p>An entry is found by others while it is valid. It is not, but still there, when its key was
 * deleted, and when its owner has revoked it while copies of it are under way: it goes with the
 * last of them. A fixed pool, whose memory is taken with the first entry; confined to the index.
 */
public final class Advertisements {
  static final int NONE = Region.NOTHING_ADVERTISED;

  /** The most regions that one key is advertised by. */
  public static final int OWNERS_MAX = 16;

  private static final int KEY_WORDS = 4;

  private static final byte FREE = 0;

  /** Others find it. */
  private static final byte VALID = 1;

  /** Its key was deleted; its owner does not know that yet. */
  private static final byte DELETED = 2;

  /** Its owner wants it back, and copies of it are under way. */
  private static final byte REVOKED = 3;

  private final Directory directory;
  private final int most;
  private long[] keys = new long[0];
  private int[] namespaceId = new int[0];
  private short[] group = new short[0];
  private byte[] keyBytes = new byte[0];
  private byte[] state = new byte[0];
  private @Nullable Region[] region = new Region[0];
  private int[] block = new int[0];
  private int[] copies = new int[0];

  /** Who waits for its end: an operation's number in the pool. */
  private int[] waiter = new int[0];

  /** The next of the same bucket, or of those that are free. */
  private int[] next = new int[0];

  private int[] nextOfRegion = new int[0];
  private int[] previousOfRegion = new int[0];
  private int[] heads = new int[0];
  private int freeHead = NONE;
  private int highWater;
  private int size;

  // Those that have all keys of a prefix so far.
  private final @Nullable Region[] candidates = new Region[OWNERS_MAX];
  private int candidateCount;
  private int prefix;
  private @Nullable Region longest;

  /**
   * An empty one.
   *
   * @param directory whose key sought last is the one that is meant here
   * @param most how many entries it can have
   */
  Advertisements(Directory directory, int most) {
    this.directory = directory;
    this.most = most;
  }

  private void takeMemory() {
    keys = new long[KEY_WORDS * most];
    namespaceId = new int[most];
    group = new short[most];
    keyBytes = new byte[most];
    state = new byte[most];
    region = new Region[most];
    block = new int[most];
    copies = new int[most];
    waiter = new int[most];
    next = new int[most];
    nextOfRegion = new int[most];
    previousOfRegion = new int[most];
    heads = new int[Integer.highestOneBit(Math.max(64, most)) << 1];
    Arrays.fill(heads, NONE);
  }

  /** Whether nothing is advertised. */
  boolean isEmpty() {
    return size == 0;
  }

  int size() {
    return size;
  }

  private int bucket(int ofNamespace, int ofGroup, int ofKeyBytes) {
    return directory.soughtHash(ofNamespace, ofGroup, ofKeyBytes) & (heads.length - 1);
  }

  /** The next entry of the key that was sought in the directory last, from one of its bucket on. */
  private int from(int first, int ofNamespace, int ofGroup, int ofKeyBytes) {
    int one = first;
    while (one != NONE
        && !(directory.isSought(keys, KEY_WORDS * one)
            && namespaceId[one] == ofNamespace
            && group[one] == (short) ofGroup
            && keyBytes[one] == (byte) ofKeyBytes)) {
      one = next[one];
    }
    return one;
  }

  private int first(int ofNamespace, int ofGroup, int ofKeyBytes) {
    return size == 0
        ? NONE
        : from(heads[bucket(ofNamespace, ofGroup, ofKeyBytes)], ofNamespace, ofGroup, ofKeyBytes);
  }

  private int next(int one) {
    return from(next[one], namespaceId[one], group[one], keyBytes[one]);
  }

  /**
   * A region advertises the key that was sought in the directory last.
   *
   * @return OK; EXISTS where it does so already; BUSY where it has another block of that key, which
   *     was not revoked, or was deleted, or of which copies are still under way, or there is no
   *     room
   */
  Status add(Region owner, int ofBlock, int ofNamespace, int ofGroup, int ofKeyBytes) {
    int owners = 0;
    for (int one = first(ofNamespace, ofGroup, ofKeyBytes); one != NONE; one = next(one)) {
      if (region[one] == owner) {
        // In another place it is another promise: the first has to be taken back before.
        return state[one] == VALID && block[one] == ofBlock ? Status.EXISTS : Status.BUSY;
      }
      owners++;
    }
    if (owners >= OWNERS_MAX || size == most) {
      return Status.BUSY;
    }
    if (keys.length == 0) {
      takeMemory();
    }
    int one = freeHead;
    if (one == NONE) {
      one = highWater++;
    } else {
      freeHead = next[one];
    }
    directory.copySought(keys, KEY_WORDS * one);
    namespaceId[one] = ofNamespace;
    group[one] = (short) ofGroup;
    keyBytes[one] = (byte) ofKeyBytes;
    state[one] = VALID;
    region[one] = owner;
    block[one] = ofBlock;
    copies[one] = 0;
    waiter[one] = NONE;
    int bucket = bucket(ofNamespace, ofGroup, ofKeyBytes);
    next[one] = heads[bucket];
    heads[bucket] = one;
    previousOfRegion[one] = NONE;
    nextOfRegion[one] = owner.firstAdvertised;
    if (owner.firstAdvertised != NONE) {
      previousOfRegion[owner.firstAdvertised] = one;
    }
    owner.firstAdvertised = one;
    size++;
    return Status.OK;
  }

  /** A region's own entry of the key that was sought last, valid or not. */
  int findOf(Region owner, int ofNamespace, int ofGroup, int ofKeyBytes) {
    int one = first(ofNamespace, ofGroup, ofKeyBytes);
    while (one != NONE && region[one] != owner) {
      one = next(one);
    }
    return one;
  }

  /**
   * A valid entry of the key that was sought last, whose block another region can be given: of
   * those on its own GPU, or else on one that it reaches.
   */
  int findFor(Region getter, int ofNamespace, int ofGroup, int ofKeyBytes) {
    int found = NONE;
    for (int one = first(ofNamespace, ofGroup, ofKeyBytes); one != NONE; one = next(one)) {
      if (state[one] == VALID && getter.canCopyFrom(owner(one))) {
        found = one;
        if (owner(one).pipeline == getter.pipeline) {
          break;
        }
      }
    }
    return found;
  }

  /** The key that was sought last is deleted: nobody finds it any more. Whether anybody could. */
  boolean delete(int ofNamespace, int ofGroup, int ofKeyBytes) {
    boolean any = false;
    for (int one = first(ofNamespace, ofGroup, ofKeyBytes); one != NONE; one = next(one)) {
      any |= state[one] == VALID;
      state[one] = state[one] == VALID ? DELETED : state[one];
    }
    return any;
  }

  /** The same of all keys of a namespace. */
  void deleteAll(int ofNamespace) {
    for (int one = 0; one < highWater; one++) {
      if (state[one] == VALID && namespaceId[one] == ofNamespace) {
        state[one] = DELETED;
      }
    }
  }

  /** A copy of it begins, or will. */
  void lend(int one) {
    copies[one]++;
    owner(one).lent++;
  }

  /**
   * A copy of it is over.
   *
   * @return whether its revocation waited for that, and is complete: the entry is to be freed
   */
  boolean giveBack(int one) {
    copies[one]--;
    owner(one).lent--;
    return copies[one] == 0 && state[one] == REVOKED;
  }

  /**
   * Its owner wants it back; nobody finds it any more.
   *
   * @return whether no copy of it is under way: the entry is to be freed
   */
  boolean revoke(int one) {
    state[one] = REVOKED;
    return copies[one] == 0;
  }

  /** Whether its owner wants it back. */
  boolean isRevoked(int one) {
    return state[one] == REVOKED;
  }

  /** Takes an entry out, of which no copy is under way. */
  void free(int one) {
    // By the bucket of its own key, whatever was sought last.
    int bucket =
        directory.hashOf(namespaceId[one], group(one), keyBytes[one], keys, KEY_WORDS * one)
            & (heads.length - 1);
    Chains.unlink(heads, next, bucket, one);
    Region owner = owner(one);
    if (previousOfRegion[one] == NONE) {
      owner.firstAdvertised = nextOfRegion[one];
    } else {
      nextOfRegion[previousOfRegion[one]] = nextOfRegion[one];
    }
    if (nextOfRegion[one] != NONE) {
      previousOfRegion[nextOfRegion[one]] = previousOfRegion[one];
    }
    state[one] = FREE;
    region[one] = null;
    next[one] = freeHead;
    freeHead = one;
    size--;
  }

  /** The one that a region has advertised after another; to be asked for before that is freed. */
  int nextOfRegion(int one) {
    return nextOfRegion[one];
  }

  /** Whose block it is. */
  Region owner(int one) {
    Region owner = region[one];
    if (owner == null) {
      throw new IllegalStateException("advertisement " + one + " is free");
    }
    return owner;
  }

  /** The block's number in its region. */
  int block(int one) {
    return block[one];
  }

  /** Which operation waits until it is free, by its number in the pool; {@link #NONE}: none. */
  int waiter(int one) {
    return waiter[one];
  }

  void setWaiter(int one, int operation) {
    waiter[one] = operation;
  }

  /** Seeks an entry's key in the directory, so that it is the one sought last. */
  int find(int one) {
    return directory.find(
        namespaceId[one],
        Short.toUnsignedInt(group[one]),
        keyBytes[one],
        MemorySegment.ofArray(keys),
        (long) KEY_WORDS * Long.BYTES * one);
  }

  int group(int one) {
    return Short.toUnsignedInt(group[one]);
  }

  int keyBytes(int one) {
    return keyBytes[one];
  }

  // ---- the longest prefix that one region has

  /** A prefix begins. */
  void beginPrefix() {
    prefix = 0;
    longest = null;
  }

  /**
   * The prefix goes on with the key that was sought last.
   *
   * @return false when no region has all of it: the prefix ends before this key
   */
  boolean goesOn(int ofNamespace, int ofGroup, int ofKeyBytes) {
    int kept = 0;
    for (int one = first(ofNamespace, ofGroup, ofKeyBytes); one != NONE; one = next(one)) {
      if (state[one] == VALID) {
        if (prefix == 0) {
          candidates[kept++] = region[one];
        } else {
          kept += keep(owner(one), kept);
        }
      }
    }
    candidateCount = kept;
    if (kept == 0) {
      return false;
    }
    prefix++;
    longest = candidates[0];
    return true;
  }

  /** Moves one that has had all keys before to those that have this one, too. */
  private int keep(Region owner, int kept) {
    for (int i = kept; i < candidateCount; i++) {
      if (candidates[i] == owner) {
        candidates[i] = candidates[kept];
        candidates[kept] = owner;
        return 1;
      }
    }
    return 0;
  }

  /** How many keys the prefix has. */
  public int prefix() {
    return prefix;
  }

  /** One of the regions that have all of them; null: there are none. */
  @Nullable Region takeLongest() {
    Region found = longest;
    longest = null;
    Arrays.fill(candidates, null);
    return found;
  }

  /** How many copies are under way, or will be; for tests. */
  int copies() {
    int sum = 0;
    for (int one = 0; one < highWater; one++) {
      sum += state[one] == FREE ? 0 : copies[one];
    }
    return sum;
  }
}
