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
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.jspecify.annotations.Nullable;

/**
 * The object tier as the index sees it: the objects that are known to exist, without asking. {@link
 * ObjectRemovals} has the objects that must be deleted. There is no directory of objects: blocks
 * that are only objects have no record. Confined to the index.
 */
public final class ObjectLine {
  /** Hears whether the object exists of a block that is about to leave this node. */
  public interface Confirmations {
    void confirmed(int block, int tier, Presence presence);
  }

  /** The answer to a question about the object of a block that is about to leave this node. */
  private record Confirmed(int block, int tier, Presence presence) {}

  private final @Nullable ObjectParts parts;
  private final Directory directory;
  private final Namespaces namespaces;
  private final @Nullable BlockEvents events;
  private final BlockObjects objects;
  private final ObjectRemovals removals;
  private final Queue<Confirmed> confirmed = new ConcurrentLinkedQueue<>();
  private int confirming;

  private final Transfer named = new Transfer(0);
  private final MemorySegment namedKey =
      Arena.ofAuto().allocate(Protocol.KEY_BYTES_MAX, Long.BYTES);

  /**
   * Nothing is known yet.
   *
   * @param parts null where there is no such tier
   * @param events hears which objects come and go; null when nobody listens
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
    objects = new BlockObjects(directory, namespaces);
    removals = new ObjectRemovals(parts, directory, namespaces, objects);
  }

  /** The objects that must be deleted. */
  public ObjectRemovals removals() {
    return removals;
  }

  public boolean isConfigured() {
    return parts != null;
  }

  /** Whether a fetch would be tried now, or the store is given a rest. */
  public boolean isOpen() {
    return parts != null && parts.traffic().isOpen().getAsBoolean();
  }

  /** Whether an upload would be tried now. */
  public boolean takesStores() {
    return parts != null && parts.traffic().takesStores().getAsBoolean();
  }

  /** The fields of the tier's report, by name: texts, numbers and truths. */
  public Map<String, Object> report() {
    return parts == null ? Map.of() : parts.report().get();
  }

  // ---- objects

  /** Counts a use of a block's object, so that the object is not the next to be collected. */
  public void used(int block) {
    if (parts != null
        && parts.contents().uses() != null
        && directory.has(Directory.FLAG_OBJECT, block)) {
      parts.contents().uses().accept(objects.keyOf(block));
    }
  }

  /**
   * Carries out an operator's command to the store.
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

  /**
   * Whether the object for the block key that was sought last exists, as far as is known. An object
   * that must be deleted counts as absent.
   */
  public Presence presenceOfSought(Namespaces.Namespace namespace, int keyBytes, int group) {
    return parts == null || removals.isSoughtGoing(namespace, keyBytes, group)
        ? Presence.ABSENT
        : parts.contents().presence().lookup(objects.keyOfSought(namespace, keyBytes, group));
  }

  /**
   * Whether the object of a block exists, as far as is known. An object that must be deleted counts
   * as absent.
   */
  Presence presenceOf(int block) {
    return parts == null || removals.isGoing(block)
        ? Presence.ABSENT
        : parts.contents().presence().lookup(objects.keyOf(block));
  }

  /** Whether the store would answer a question about an object, as far as is known. */
  public boolean canConfirm() {
    return parts != null && isOpen() && parts.contents().presence().trouble().isEmpty();
  }

  /**
   * Asks the store whether a block's object still exists; {@link #collectConfirmed} gives the
   * answer. Other nodes delete objects, too, so that the knowledge of this node may be out of date.
   *
   * @return false when too many questions are under way
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
                objects.keyOf(block),
                objects.nameOf(block),
                presence -> {
                  confirmed.add(new Confirmed(block, tier, presence));
                  present.bell().run();
                });
    confirming += taken ? 1 : 0;
    return taken;
  }

  /** How many blocks wait for the confirmation of their objects before they leave. */
  public int confirming() {
    return confirming;
  }

  /** Gives the answers that have come to a listener; returns how many. */
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

  /** Notes whether the object of a block exists. */
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

  /** Notes that the object of a block does not exist, or is of no use. */
  public void gone(int block) {
    directory.set(Directory.FLAG_OBJECT, block, false);
    if (events != null) {
      events.removed(BlockEvents.OBJECT, block);
    }
  }

  /**
   * Has the object of a block deleted, now or after the upload that is under way.
   *
   * @return false when too many deletions wait already
   */
  public boolean delete(int block) {
    if (parts == null) {
      return true;
    }
    // An earlier start of the daemon may have published the object, which this one does not know.
    boolean wasTold =
        events != null
            && (directory.has(Directory.FLAG_OBJECT, block)
                || parts.contents().presence().lookup(objects.keyOf(block)) != Presence.ABSENT);
    boolean isTaken = removals.delete(block);
    if (isTaken && wasTold) {
      gone(block);
    }
    return isTaken;
  }

  /**
   * Prepares the end of a block whose namespace is being cleared. If an upload of the block is
   * under way, the object is deleted afterwards.
   *
   * @return whether an upload is under way
   */
  public boolean forget(int block) {
    return parts != null && directory.has(Directory.FLAG_UPLOADING, block) && delete(block);
  }

  /**
   * Deletes the object for the block key that was sought last; false when too many deletions wait.
   */
  public boolean deleteSought(Namespaces.Namespace namespace, int keyBytes, int group) {
    if (parts == null) {
      return true;
    }
    ObjectKey objectKey = objects.keyOfSought(namespace, keyBytes, group);
    boolean mayBe = parts.contents().presence().lookup(objectKey) != Presence.ABSENT;
    boolean isTaken = removals.delete(objects.nameOfSought(namespace, keyBytes, group), objectKey);
    if (events != null && mayBe && isTaken) {
      events.removedSought(BlockEvents.OBJECT, namespace.id(), group, keyBytes);
    }
    return isTaken;
  }

  /**
   * Notes the objects that an operator, the cap or CLEAR has deleted: blocks must not rely on them.
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

  /** Goes on with deletions, and hears which objects were deleted. */
  public void advance() {
    if (parts == null) {
      return;
    }
    // In this order: the names of all deletions that count as done have come before.
    removals.hear(parts);
    for (List<String> collected = parts.contents().collected().get();
        collected != null;
        collected = parts.contents().collected().get()) {
      learnOf(collected, parts);
    }
    removals.advance(parts);
  }
}
