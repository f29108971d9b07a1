package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.ObjectNames;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The objects that must be deleted, from the request to the end of the deletion. The object of a
 * block that is being written can be deleted only when the write is over: until then the deletion
 * is promised. A deletion for which the queue of deletions has no place is owed. Confined to the
 * index.
 */
public final class ObjectRemovals {
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

  /** The deletions that are promised or owed now. Later ones are not waited for. */
  private final class Barrier {
    private final long promisesUpTo = promisesMade;
    private long owedUpTo = -1;

    /** Whether all of them are in the queue of deletions. */
    boolean isPassed() {
      if (owedUpTo < 0
          && (promises.isEmpty() || promises.firstEntry().getValue().number > promisesUpTo)) {
        owedUpTo = owedAdded;
      }
      return owedUpTo >= 0 && owedOrdered >= owedUpTo;
    }
  }

  /** An object that must be deleted as soon as its block is written. */
  private record Promise(long number, String name) {}

  /** An object whose deletion is in the queue, with the count of deletions up to this one. */
  private record Deleting(ObjectKey key, long mark) {}

  private static final int OWED_MAX = 1 << 16;

  private final @Nullable ObjectParts parts;
  private final Directory directory;
  private final Namespaces namespaces;
  private final BlockObjects objects;
  private final List<Clearing> clearings = new ArrayList<>();

  /** Promised deletions by block, the oldest first. */
  private final LinkedHashMap<Integer, Promise> promises = new LinkedHashMap<>();

  /** The names of the objects whose deletions are promised. */
  private final Set<String> promised = new HashSet<>();

  private long promisesMade;

  /** Owed deletions by the names of the objects, the oldest first. */
  private final LinkedHashMap<String, ObjectKey> owed = new LinkedHashMap<>();

  private long owedAdded;
  private long owedOrdered;
  private final ArrayDeque<Deleting> deleting = new ArrayDeque<>();

  /** How many deletions are done, and were heard of. */
  private long deletionsDone;

  /**
   * Nothing must be deleted.
   *
   * @param parts null where there is no object tier
   */
  ObjectRemovals(
      @Nullable ObjectParts parts,
      Directory directory,
      Namespaces namespaces,
      BlockObjects objects) {
    this.parts = parts;
    this.directory = directory;
    this.namespaces = namespaces;
    this.objects = objects;
  }

  // ---- single objects

  /**
   * Queues the deletion of a block's object, or promises the deletion while the object is being
   * written.
   *
   * @return false when too many deletions wait already
   */
  boolean delete(int block) {
    return directory.has(Directory.FLAG_UPLOADING, block)
        ? promise(block)
        : delete(objects.nameOf(block), objects.keyOf(block));
  }

  private boolean promise(int block) {
    if (promises.size() + owed.size() >= OWED_MAX) {
      return false;
    }
    directory.set(Directory.FLAG_DELETED, block, true);
    String name = objects.nameOf(block);
    promises.put(block, new Promise(++promisesMade, name));
    promised.add(name);
    return true;
  }

  /** Queues the deletion of an object; false when the queue has no place. */
  boolean delete(String name, ObjectKey key) {
    if (parts == null || !parts.contents().deletions().delete(name)) {
      return false;
    }
    parts.contents().presence().absent(key);
    deleting.add(new Deleting(key, parts.contents().deletions().queued()));
    return true;
  }

  /** A block is no longer on its way to an object. */
  public void uploadEnded(int block) {
    directory.set(Directory.FLAG_UPLOADING, block, false);
    if (directory.has(Directory.FLAG_DELETED, block)) {
      directory.set(Directory.FLAG_DELETED, block, false);
      String name = objects.nameOf(block);
      ObjectKey key = objects.keyOf(block);
      promises.remove(block);
      promised.remove(name);
      if (!delete(name, key)) {
        owed.put(name, key);
        owedAdded++;
      }
    }
  }

  /**
   * Whether an object that is written for a block now could be deleted together with an earlier
   * one.
   */
  public boolean isGoing(int block) {
    return isAnyGoing() && isGoing(namespaces.of(directory, block), objects.nameOf(block));
  }

  /** As {@link #isGoing}, for the block whose key was sought last. */
  boolean isSoughtGoing(Namespaces.Namespace namespace, int keyBytes, int group) {
    return isAnyGoing() && isGoing(namespace, objects.nameOfSought(namespace, keyBytes, group));
  }

  private boolean isAnyGoing() {
    return parts != null
        && !(clearings.isEmpty()
            && promises.isEmpty()
            && owed.isEmpty()
            && deletionsDone == parts.contents().deletions().queued());
  }

  private boolean isGoing(Namespaces.Namespace namespace, String name) {
    for (Clearing one : clearings) {
      if (one.namespace.id() == namespace.id()) {
        return true;
      }
    }
    return promised.contains(name)
        || owed.containsKey(name)
        || (parts != null && parts.contents().deletions().isPending(name));
  }

  /** Says when all objects that must be deleted now are deleted. */
  public BooleanSupplier untilGone() {
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

  // ---- whole namespaces

  /** Notes the namespaces that are being cleared. */
  public void noteInUse(BitSet ids) {
    clearings.forEach(one -> ids.set(one.namespace.id()));
  }

  /** Begins to clear a namespace: none of its blocks is uploaded until its objects are deleted. */
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

  /** All blocks of the namespace have gone from here: the objects follow. */
  public void clear(Clearing clearing) {
    clearing.begun = new Barrier();
  }

  /** The blocks did not all go: the objects stay, too. */
  public void giveUp(Clearing clearing) {
    if (clearing.begun == null) {
      clearings.remove(clearing);
    }
  }

  // ---- each round

  /**
   * Reads how many deletions are done; {@link ObjectLine} reads the names of their objects
   * afterwards.
   */
  void hear(ObjectParts present) {
    deletionsDone = present.contents().deletions().done();
  }

  /** Goes on with deletions that are owed, and with namespaces. */
  void advance(ObjectParts present) {
    // The object is noted as absent once more: a load or a question under way may have found it
    // since.
    while (!deleting.isEmpty() && deleting.element().mark <= deletionsDone) {
      present.contents().presence().absent(deleting.remove().key);
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
      advance(one, present);
    }
    clearings.removeIf(Clearing::isDone);
  }

  private void advance(Clearing one, ObjectParts present) {
    Barrier begun = one.begun;
    if (begun != null && !one.isAsked && begun.isPassed()) {
      String names = ObjectNames.ofNamespace(one.namespace.high(), one.namespace.low());
      one.isAsked = present.contents().deletions().deleteAll(names);
      one.mark = present.contents().deletions().queued();
    }
    if (one.isAsked && deletionsDone >= one.mark) {
      // Nothing tells which of the known objects are of the namespace.
      present.contents().presence().forgetAll();
      one.done = true;
    }
  }
}
