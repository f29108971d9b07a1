package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.ObjectNames;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The object tier as the index sees it: what is known to be there, without asking, and what is to
 * go from it. There is no directory of it; blocks that are only there have no record. Confined to
 * the index.
 */
public final class ObjectLine {
  /** Hears what became of a question about a block that is here, and is to leave as an object. */
  public interface Confirmations {
    void confirmed(int block, int tier, Presence presence);
  }

  /** A question about an object on which a block relies that is to leave; it is over. */
  private record Confirmed(int block, int tier, Presence presence) {}

  /** The removal of all of a namespace's objects, from before it begins to its end. */
  public static final class Clearing {
    private final Namespaces.Namespace namespace;
    private @Nullable Barrier begun;
    private boolean isAsked;
    private long mark;
    private boolean done;

    private Clearing(Namespaces.Namespace namespace) {
      this.namespace = namespace;
    }

    public boolean isDone() {
      return done;
    }
  }

  /**
   * Deletions that could not be ordered yet, as they are now: of blocks on their way to an object,
   * and those for which there was no room. Others that come later are not waited for.
   */
  private final class Barrier {
    private final long promisesUpTo = promisesMade;
    private long owedUpTo = -1;

    /** Whether all of them are ordered. */
    boolean isPassed() {
      if (owedUpTo < 0
          && (promises.isEmpty() || promises.firstEntry().getValue().number > promisesUpTo)) {
        owedUpTo = owedAdded;
      }
      return owedUpTo >= 0 && owedOrdered >= owedUpTo;
    }
  }

  /** An object that is to go as soon as its block is written. */
  private record Promise(long number, String name) {}

  /** An object whose deletion was ordered: the last of so many. */
  private record Deleting(ObjectKey key, long mark) {}

  private static final int OWED_MAX = 1 << 16;

  private final @Nullable ObjectParts parts;
  private final Directory directory;
  private final Namespaces namespaces;
  private final @Nullable BlockEvents events;
  private final byte[] key = new byte[Protocol.KEY_BYTES_MAX];
  private final Queue<Confirmed> confirmed = new ConcurrentLinkedQueue<>();
  private final List<Clearing> clearings = new ArrayList<>();
  private int confirming;

  /** Blocks whose objects are to go when they are written, oldest first. */
  private final LinkedHashMap<Integer, Promise> promises = new LinkedHashMap<>();

  private final Set<String> promised = new HashSet<>();
  private long promisesMade;

  /** The same where there was no room for their deletion when they were written. */
  private final LinkedHashMap<String, ObjectKey> owed = new LinkedHashMap<>();

  private long owedAdded;
  private long owedOrdered;
  private final ArrayDeque<Deleting> deleting = new ArrayDeque<>();

  /** So many deletions are done and have been heard of. */
  private long deletionsDone;

  private final Transfer named = new Transfer(0);
  private final MemorySegment namedKey =
      Arena.ofAuto().allocate(Protocol.KEY_BYTES_MAX, Long.BYTES);

  /**
   * Nothing is known yet.
   *
   * @param parts null where there is no such tier
   * @param events told of what comes and goes; null for nobody
   */
  public ObjectLine(
      @Nullable ObjectParts parts,
      Directory directory,
      Namespaces namespaces,
      @Nullable BlockEvents events) {
    this.parts = parts;
    this.directory = directory;
    this.namespaces = namespaces;
    this.events = events;
  }

  public boolean isConfigured() {
    return parts != null;
  }

  /** Whether a fetch would be tried now, or the store is given a rest. */
  public boolean isOpen() {
    return parts != null && parts.traffic().isOpen().getAsBoolean();
  }

  /** The same of an upload. */
  public boolean takesStores() {
    return parts != null && parts.traffic().takesStores().getAsBoolean();
  }

  /** The tier for people: names with texts, numbers and truths. */
  public Map<String, Object> report() {
    return parts == null ? Map.of() : parts.report().get();
  }

  // ---- what is there

  private ObjectKey keyOf(Namespaces.Namespace namespace, int keyBytes, int group) {
    return ObjectKey.of(namespace.high(), namespace.low(), key, keyBytes, group);
  }

  private String nameOf(Namespaces.Namespace namespace, int keyBytes, int group) {
    return ObjectNames.ofBlock(namespace.high(), namespace.low(), key, keyBytes, group);
  }

  private ObjectKey keyOf(int block) {
    directory.copyKey(block, key);
    return keyOf(
        namespaces.of(directory, block), directory.keyBytes(block), directory.group(block));
  }

  private String nameOf(int block) {
    directory.copyKey(block, key);
    return nameOf(
        namespaces.of(directory, block), directory.keyBytes(block), directory.group(block));
  }

  /** The object of a block counts as used: it is not the next that is collected. */
  public void used(int block) {
    if (parts != null
        && parts.contents().uses() != null
        && directory.has(Directory.FLAG_OBJECT, block)) {
      parts.contents().uses().accept(keyOf(block));
    }
  }

  /**
   * Has done what an operator wants done with the store.
   *
   * @throws IllegalArgumentException saying what is wrong with the words
   */
  public OperatorAnswer operate(List<String> words) {
    if (parts == null) {
      return new OperatorAnswer(
          Status.MISS, "there is no object tier: object.store is none in the configuration");
    }
    return parts.operator().run(words);
  }

  /** What is known of the block whose key was sought last. What is to go is not there any more. */
  public Presence presenceOfSought(Namespaces.Namespace namespace, int keyBytes, int group) {
    if (parts == null) {
      return Presence.ABSENT;
    }
    directory.copySought(key);
    return isAnyGoing() && isKeyGoing(namespace, keyBytes, group)
        ? Presence.ABSENT
        : parts.contents().presence().lookup(keyOf(namespace, keyBytes, group));
  }

  /** Says whether a block that has a record is an object. One that is to be deleted is none. */
  Presence presenceOf(int block) {
    if (parts == null) {
      return Presence.ABSENT;
    }
    directory.copyKey(block, key);
    Namespaces.Namespace namespace = namespaces.of(directory, block);
    int keyBytes = directory.keyBytes(block);
    int group = directory.group(block);
    return isAnyGoing() && isKeyGoing(namespace, keyBytes, group)
        ? Presence.ABSENT
        : parts.contents().presence().lookup(keyOf(namespace, keyBytes, group));
  }

  /** Whether the store would answer, as far as is known, whether an object is there. */
  public boolean canConfirm() {
    return parts != null && isOpen() && parts.contents().presence().trouble().isEmpty();
  }

  /**
   * Has the store asked whether a block's object is still there; {@link #collectConfirmed} tells.
   * Others delete, too: what is known here may be long untrue.
   *
   * @return false when too much is being found out already
   */
  public boolean confirm(int block, int tier) {
    if (parts == null) {
      return false;
    }
    ObjectParts present = parts;
    boolean taken =
        present
            .contents()
            .presence()
            .confirm(
                keyOf(block),
                nameOf(block),
                presence -> {
                  confirmed.add(new Confirmed(block, tier, presence));
                  present.bell().run();
                });
    confirming += taken ? 1 : 0;
    return taken;
  }

  /** How many blocks wait for word of their objects, so that they can leave. */
  public int confirming() {
    return confirming;
  }

  /** Tells of the questions that are over; returns how many. */
  public int collectConfirmed(Confirmations listener) {
    int count = 0;
    for (Confirmed one = confirmed.poll(); one != null; one = confirmed.poll()) {
      confirming--;
      count++;
      listener.confirmed(one.block, one.tier, one.presence);
    }
    return count;
  }

  public boolean hasConfirmed() {
    return !confirmed.isEmpty();
  }

  // ---- what comes and goes

  /** Whether a block is an object, too, as far as is known, from now on. */
  public void know(int block, boolean isObject) {
    if (directory.has(Directory.FLAG_OBJECT, block) == isObject) {
      return;
    }
    directory.set(Directory.FLAG_OBJECT, block, isObject);
    if (events != null && isObject) {
      events.stored(BlockEvents.OBJECT, block);
    } else if (events != null) {
      events.removed(BlockEvents.OBJECT, block);
    }
  }

  /** The object of a block turned out not to be there, or not to be of use. */
  public void gone(int block) {
    directory.set(Directory.FLAG_OBJECT, block, false);
    if (events != null) {
      events.removed(BlockEvents.OBJECT, block);
    }
  }

  /**
   * The object of a block is to go. While the block is on its way there, that is owed.
   *
   * @return false when too much is to go already
   */
  public boolean delete(int block) {
    if (parts == null) {
      return true;
    }
    // Told by an earlier start of the daemon, perhaps, where this one knows nothing.
    boolean wasTold =
        events != null
            && (directory.has(Directory.FLAG_OBJECT, block)
                || parts.contents().presence().lookup(keyOf(block)) != Presence.ABSENT);
    boolean isTaken =
        directory.has(Directory.FLAG_UPLOADING, block)
            ? promiseDeletion(block)
            : delete(nameOf(block), keyOf(block));
    if (isTaken && wasTold) {
      gone(block);
    }
    return isTaken;
  }

  private boolean promiseDeletion(int block) {
    if (promises.size() + owed.size() >= OWED_MAX) {
      return false;
    }
    directory.set(Directory.FLAG_DELETED, block, true);
    String name = nameOf(block);
    promises.put(block, new Promise(++promisesMade, name));
    promised.add(name);
    return true;
  }

  /**
   * A block goes whose object goes with all of its namespace's: one that is on its way there is
   * owed.
   *
   * @return whether it is
   */
  public boolean forget(int block) {
    return parts != null && directory.has(Directory.FLAG_UPLOADING, block) && delete(block);
  }

  /** The same of the block whose key was sought last. */
  public boolean deleteSought(Namespaces.Namespace namespace, int keyBytes, int group) {
    if (parts == null) {
      return true;
    }
    directory.copySought(key);
    ObjectKey objectKey = keyOf(namespace, keyBytes, group);
    boolean mayBe = parts.contents().presence().lookup(objectKey) != Presence.ABSENT;
    boolean isTaken = delete(nameOf(namespace, keyBytes, group), objectKey);
    if (events != null && mayBe && isTaken) {
      events.removedSought(BlockEvents.OBJECT, namespace.id(), group, keyBytes);
    }
    return isTaken;
  }

  private boolean delete(String name, ObjectKey objectKey) {
    if (parts == null || !parts.contents().deletions().delete(name)) {
      return false;
    }
    parts.contents().presence().absent(objectKey);
    deleting.add(new Deleting(objectKey, parts.contents().deletions().queued()));
    return true;
  }

  /** A block is no longer on its way to an object. */
  public void uploadEnded(int block) {
    directory.set(Directory.FLAG_UPLOADING, block, false);
    if (directory.has(Directory.FLAG_DELETED, block)) {
      directory.set(Directory.FLAG_DELETED, block, false);
      String name = nameOf(block);
      ObjectKey objectKey = keyOf(block);
      promises.remove(block);
      promised.remove(name);
      if (!delete(name, objectKey)) {
        owed.put(name, objectKey);
        owedAdded++;
      }
    }
  }

  /** Whether what is written of a block now could be deleted with what was there before. */
  public boolean isGoing(int block) {
    if (!isAnyGoing()) {
      return false;
    }
    directory.copyKey(block, key);
    return isKeyGoing(
        namespaces.of(directory, block), directory.keyBytes(block), directory.group(block));
  }

  private boolean isAnyGoing() {
    return parts != null
        && !(clearings.isEmpty()
            && promises.isEmpty()
            && owed.isEmpty()
            && deletionsDone == parts.contents().deletions().queued());
  }

  /** The same of the key that was copied last. */
  private boolean isKeyGoing(Namespaces.Namespace namespace, int keyBytes, int group) {
    for (Clearing one : clearings) {
      if (one.namespace.id() == namespace.id()) {
        return true;
      }
    }
    String name = nameOf(namespace, keyBytes, group);
    return promised.contains(name)
        || owed.containsKey(name)
        || (parts != null && parts.contents().deletions().isPending(name));
  }

  /** Until all that is to go so far has gone. */
  public BooleanSupplier removals() {
    if (parts == null) {
      return () -> true;
    }
    return new Removal(parts);
  }

  private final class Removal implements BooleanSupplier {
    private final ObjectParts parts;
    private final Barrier ordered = new Barrier();
    private long mark = -1;

    Removal(ObjectParts parts) {
      this.parts = parts;
    }

    @Override
    public boolean getAsBoolean() {
      if (mark < 0 && ordered.isPassed()) {
        mark = parts.contents().deletions().queued();
      }
      return mark >= 0 && deletionsDone >= mark;
    }
  }

  /** Notes the namespaces that are being cleared. */
  public void noteInUse(BitSet ids) {
    clearings.forEach(one -> ids.set(one.namespace.id()));
  }

  /** Nothing of a namespace goes to the tier from now on, until its objects have gone. */
  @Nullable
  public Clearing beginClear(int namespaceId) {
    Namespaces.Namespace namespace = namespaces.byId(namespaceId);
    if (parts == null || namespace == null) {
      return null;
    }
    Clearing clearing = new Clearing(namespace);
    clearings.add(clearing);
    return clearing;
  }

  /** All of the namespace's blocks have gone from here: its objects follow. */
  public void clear(Clearing clearing) {
    clearing.begun = new Barrier();
  }

  /** The blocks did not all go: the objects stay, too. */
  public void giveUp(Clearing clearing) {
    if (clearing.begun == null) {
      clearings.remove(clearing);
    }
  }

  /**
   * What an operator, the cap, or CLEAR has deleted is there no longer: blocks must not rely on it.
   */
  private void learnOf(List<String> names, ObjectParts present) {
    for (String name : names) {
      if (!ObjectNames.readBlock(name, named)) {
        continue;
      }
      present.contents().presence().absent(ObjectKey.of(named));
      Namespaces.Namespace namespace =
          namespaces.byFingerprint(named.namespaceHigh, named.namespaceLow);
      if (namespace != null) {
        MemorySegment.copy(named.key, 0, namedKey, ValueLayout.JAVA_BYTE, 0, named.key.length);
        int block = directory.find(namespace.id(), named.group, named.keyBytes, namedKey, 0);
        if (block != Directory.NONE && directory.has(Directory.FLAG_OBJECT, block)) {
          know(block, false);
        } else if (events != null) {
          events.removedNamed(BlockEvents.OBJECT, namespace.id(), named);
        }
      }
    }
  }

  /** Goes on with what is to go, and hears of what has gone. */
  public void advance() {
    if (parts == null) {
      return;
    }
    // In this order: what is done has been told of before.
    deletionsDone = parts.contents().deletions().done();
    for (List<String> collected = parts.contents().collected().get();
        collected != null;
        collected = parts.contents().collected().get()) {
      learnOf(collected, parts);
    }
    // Once more: a load or a question that was under way may have found it since.
    while (!deleting.isEmpty() && deleting.element().mark <= deletionsDone) {
      parts.contents().presence().absent(deleting.remove().key);
    }
    if (owed.isEmpty() && clearings.isEmpty()) {
      return;
    }
    while (!owed.isEmpty()) {
      Map.Entry<String, ObjectKey> first = owed.firstEntry();
      if (!delete(first.getKey(), first.getValue())) {
        break;
      }
      owed.remove(first.getKey());
      owedOrdered++;
    }
    for (Clearing one : clearings) {
      Barrier begun = one.begun;
      if (begun != null && !one.isAsked && begun.isPassed()) {
        one.isAsked =
            parts
                .contents()
                .deletions()
                .deleteAll(ObjectNames.ofNamespace(one.namespace.high(), one.namespace.low()));
        one.mark = parts.contents().deletions().queued();
      }
      if (one.isAsked && deletionsDone >= one.mark) {
        // Which of them were the namespace's can't be told.
        parts.contents().presence().forgetAll();
        one.done = true;
      }
    }
    clearings.removeIf(Clearing::isDone);
  }
}
