package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Protocol;
import io.kvtier.tiers.object.BlockKey;
import io.kvtier.tiers.object.KnownBlocks;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.PresenceCache.Presence;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Objects;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * Questions to a source, such as the object store, about its blocks. Gets wait for the answers;
 * lookups never wait, but come again. Confined to the index, except for the arrival of answers.
 *
 * <p>The unknown blocks of a lookup are searched as one prefix, in order: a few blocks at first,
 * and twice as many in each turn in which all are present. The first absent block ends the search,
 * because the blocks behind it are of no use. So a stored prefix of any length is known after a few
 * turns, and a prefix that nobody has stored costs a few questions.
 *
 * <p>The questions under way, and the keys that wait in searches, are bounded. Tenants share them
 * by their weight. Gets have their turn first, then searches in the order in which they began.
 */
public final class ObjectProbes {
  /**
   * An answer to a question.
   *
   * @param search the search that asked; null when a get asked
   * @param place the place in the search, or the item of the get
   * @param tenant the tenant that asked; {@link #NOBODY} when the store was not asked
   */
  private record Answer(@Nullable Search search, long place, int tenant, Presence presence) {}

  private static final int NOBODY = -1;

  /** Maximum blocks of a prefix that are asked for before any is known to be present. */
  public static final int ASKED_FIRST = 16;

  /** The most keys that wait in searches. */
  public static final int SOUGHT_MAX = 1 << 16;

  private static final long PREFETCHED = 1L << 48;

  private final BooleanSupplier isOpen;
  private final KnownBlocks presence;
  private final int askedFirst;
  private final Runnable bell;
  private final Directory directory;
  private final Namespaces namespaces;
  private final IntPredicate isAwaited;
  private final ClassQueues gets;
  private final ClassQueues.Server askForGet = this::askForGet;
  private final Queue<Answer> answers = new ConcurrentLinkedQueue<>();
  private final Set<Search> searches = new LinkedHashSet<>();
  private final Set<ObjectKey> sought = new HashSet<>();
  private final int[] soughtOf;
  private final int[] underWayOf;
  private final byte[] key = new byte[Protocol.KEY_BYTES_MAX];
  private int underWay;

  /** The unknown blocks of the lookup under way. */
  private @Nullable Search begun;

  /**
   * Asks nothing yet.
   *
   * @param isOpen whether a read of the source would be tried now
   * @param presence knows some of the source's blocks, and asks it about others
   * @param bell wakes the index
   * @param isAwaited whether a request waits for a block
   * @param waitingMax the most blocks of gets that wait for an answer
   * @param askedFirst the most blocks of a prefix that are asked for before any is known
   */
  public ObjectProbes(
      BooleanSupplier isOpen,
      KnownBlocks presence,
      Runnable bell,
      Directory directory,
      Namespaces namespaces,
      IntPredicate isAwaited,
      int waitingMax,
      int askedFirst) {
    this.askedFirst = askedFirst;
    this.isOpen = isOpen;
    this.presence = presence;
    this.bell = bell;
    this.directory = directory;
    this.namespaces = namespaces;
    this.isAwaited = isAwaited;
    int tenants = namespaces.tenants().count();
    gets = new ClassQueues(tenants, 1, waitingMax);
    soughtOf = new int[tenants];
    underWayOf = new int[tenants];
  }

  /** The unknown blocks of one lookup, in order. */
  private static final class Search {
    private final Namespaces.Namespace namespace;
    private final int group;
    private final int keyBytes;
    private byte[] keys;
    private ObjectKey[] objectKeys;
    private int count;

    /** The next key to be asked for; all keys from here to {@code end} still wait. */
    private int next;

    private int end;
    private int underWay;
    private int present;

    Search(Namespaces.Namespace namespace, int group, int keyBytes) {
      this.namespace = namespace;
      this.group = group;
      this.keyBytes = keyBytes;
      keys = new byte[16 * keyBytes];
      objectKeys = new ObjectKey[16];
    }

    void add(byte[] key, ObjectKey objectKey) {
      if (count == objectKeys.length) {
        keys = Arrays.copyOf(keys, 2 * keys.length);
        objectKeys = Arrays.copyOf(objectKeys, 2 * count);
      }
      System.arraycopy(key, 0, keys, count * keyBytes, keyBytes);
      objectKeys[count++] = objectKey;
      end = count;
    }

    boolean isOver() {
      return underWay == 0 && next >= end;
    }

    /** Whether the next key may be asked for now. */
    boolean mayAsk(int askedFirst) {
      return next < end && underWay < askedFirst + present;
    }

    ObjectKey objectKey(int at) {
      return Objects.requireNonNull(objectKeys[at]);
    }

    void copyKey(int at, byte[] into) {
      System.arraycopy(keys, at * keyBytes, into, 0, keyBytes);
    }
  }

  // ---- lookups

  /**
   * Asks whether the source has the block whose key was sought last, as one more block of the
   * lookup under way, unless that is being asked already.
   *
   * @return whether the answer will be known soon. False when too many questions of the tenant are
   *     open, or when the store, which is asked anyway, has not answered for a while
   */
  public boolean seek(Namespaces.Namespace namespace, int group, int keyBytes) {
    if (!isOpen.getAsBoolean()) {
      return false;
    }
    directory.copySought(key);
    ObjectKey objectKey = ObjectKey.of(namespace.high(), namespace.low(), key, keyBytes, group);
    if (!sought.contains(objectKey)) {
      int tenant = namespace.tenant();
      if (soughtOf[tenant] >= namespaces.tenants().shareOf(SOUGHT_MAX, tenant)) {
        return false;
      }
      if (begun == null) {
        begun = new Search(namespace, group, keyBytes);
      }
      sought.add(objectKey);
      soughtOf[tenant]++;
      begun.add(key, objectKey);
    }
    return !presence.isSilent();
  }

  /** The lookup under way has named all its unknown blocks. */
  public void endLookup() {
    if (begun != null) {
      searches.add(begun);
      begun = null;
    }
  }

  // ---- gets

  /**
   * Asks, for a get, whether the source has a block; {@link #collect} gives the answer.
   *
   * @return false when too many questions are open
   */
  public boolean probe(int block, int priority, boolean prefetch) {
    return isOpen.getAsBoolean()
        && gets.offer(
            namespaces.of(directory, block).tenant(),
            0,
            (prefetch ? PREFETCHED : 0) | (long) priority << 32 | block);
  }

  private boolean askForGet(long item) {
    int block = (int) item;
    boolean isWanted = (item & PREFETCHED) != 0 || isAwaited.test(block);
    if (!isWanted || !isOpen.getAsBoolean()) {
      answers.add(new Answer(null, item, NOBODY, Presence.UNKNOWN));
      return true;
    }
    Namespaces.Namespace namespace = namespaces.of(directory, block);
    if (!mayAsk(namespace.tenant())) {
      return false;
    }
    directory.copyKey(block, key);
    int keyBytes = directory.keyBytes(block);
    int group = directory.group(block);
    return ask(namespace, group, keyBytes, null, item);
  }

  // ---- asking

  private boolean mayAsk(int tenant) {
    int most = presence.probesMax();
    return underWay < most && underWayOf[tenant] < namespaces.tenants().shareOf(most, tenant);
  }

  /** Asks for the block whose key was copied last. */
  private boolean ask(
      Namespaces.Namespace namespace,
      int group,
      int keyBytes,
      @Nullable Search search,
      long place) {
    int tenant = namespace.tenant();
    BlockKey name = BlockKey.of(namespace.high(), namespace.low(), key, keyBytes, group);
    boolean isTaken =
        presence.probe(
            name.objectKey(),
            name,
            found -> {
              answers.add(new Answer(search, place, tenant, found));
              bell.run();
            });
    underWay += isTaken ? 1 : 0;
    underWayOf[tenant] += isTaken ? 1 : 0;
    return isTaken;
  }

  /** Asks waiting questions, as many as may be under way. */
  public void advance() {
    if (gets.size() > 0) {
      gets.serve(underWayOf.length, askForGet);
    }
    if (!searches.isEmpty()) {
      advanceSearches();
    }
    presence.endRound();
  }

  private void advanceSearches() {
    boolean isOpenNow = isOpen.getAsBoolean();
    for (Iterator<Search> each = searches.iterator();
        each.hasNext() && underWay < presence.probesMax(); ) {
      Search search = each.next();
      if (!isOpenNow) {
        cut(search, search.next);
      }
      presence.beginSequence();
      while (search.mayAsk(askedFirst) && mayAsk(search.namespace.tenant())) {
        search.copyKey(search.next, key);
        if (!ask(search.namespace, search.group, search.keyBytes, search, search.next)) {
          break;
        }
        search.next++;
        search.underWay++;
      }
      presence.endSequence();
      if (search.isOver()) {
        each.remove();
      }
    }
  }

  // ---- answers

  /** Gives answers to gets, and goes on with searches; returns how many answers there were. */
  public int collect(BlockSource.Finder finder) {
    int count = 0;
    for (Answer one = answers.poll(); one != null; one = answers.poll()) {
      count++;
      if (one.tenant != NOBODY) {
        underWay--;
        underWayOf[one.tenant]--;
      }
      Search search = one.search;
      if (search != null) {
        on(search, (int) one.place, one.presence);
        continue;
      }
      int block = (int) one.place;
      finder.found(
          block, (int) (one.place >>> 32) & 0xff, (one.place & PREFETCHED) != 0, one.presence);
    }
    return count;
  }

  private void on(Search search, int at, Presence presence) {
    search.underWay--;
    forget(search, at);
    if (presence == Presence.PRESENT) {
      search.present++;
    } else {
      cut(search, at);
    }
    if (search.isOver()) {
      searches.remove(search);
    }
  }

  /** Ends a search at a place: the keys from there on are not asked for any more. */
  private void cut(Search search, int end) {
    for (int at = Math.max(search.next, end); at < search.end; at++) {
      forget(search, at);
    }
    search.end = Math.min(search.end, end);
  }

  private void forget(Search search, int at) {
    sought.remove(search.objectKey(at));
    soughtOf[search.namespace.tenant()]--;
  }

  /** Checks that the counts agree; for tests. */
  public void checkInvariants() {
    int keys = Arrays.stream(soughtOf).sum();
    if (underWay < 0
        || underWay != Arrays.stream(underWayOf).sum()
        || keys != sought.size()
        || (searches.isEmpty() && keys > 0)) {
      throw new IllegalStateException(
          underWay + " questions and " + keys + " keys of " + searches.size() + " searches");
    }
  }

  public boolean hasFound() {
    return !answers.isEmpty();
  }

  /** How many questions and searches are under way or wait. */
  public int waiting() {
    return underWay + gets.size() + searches.size() + (answers.isEmpty() ? 0 : 1);
  }
}
