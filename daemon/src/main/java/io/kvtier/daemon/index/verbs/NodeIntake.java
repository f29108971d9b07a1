package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.access.VerbRoles;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Takes the blocks that other nodes push. A block gets a slot before its bytes come, and is visible
 * when they have come and match the checksum of the block's writer. Puts of clients come first, and
 * pushed blocks that nobody has used fill at most a share of their tenant's memory. Confined to the
 * index.
 */
final class NodeIntake {
  private final Directory directory;
  private final Namespaces namespaces;
  private final Counters counters;
  private final BlockStore store;
  private final ResidentTier first;
  private final HoldTable holds;
  private final Registrations registrations;
  private final BooleanSupplier drains;
  private final double share;
  private final int holdsPerSessionMax;

  /**
   * Nothing is pushed yet.
   *
   * @param drains whether new blocks are refused
   */
  NodeIntake(
      IndexCore core,
      SessionParts parts,
      BlockStore store,
      Registrations registrations,
      BooleanSupplier drains) {
    directory = core.directory();
    namespaces = core.namespaces();
    counters = core.counters();
    share = core.limits().pushedShare();
    holdsPerSessionMax = core.limits().holdsPerSessionMax();
    holds = parts.holds();
    this.store = store;
    this.registrations = registrations;
    this.drains = drains;
    first = store.first();
  }

  private static boolean mayPush(Session session) {
    return VerbRoles.mayCall(session.role(), Verb.RESERVE);
  }

  private static String roleRefusal(Session session) {
    return VerbRoles.refusal("a push", session.role(), Verb.RESERVE);
  }

  private long shareBytes(int tenant) {
    long most = (long) (share * first.slots().regionsOfPart(tenant) * first.slots().regionBytes());
    return Math.max(0, most - directory.pushedBytes(tenant));
  }

  private NodeCall.Room room(int tenant) {
    SlotAllocator slots = first.slots();
    long all = slots.regionsOfPart(tenant) * slots.regionBytes();
    return new NodeCall.Room(all - slots.bytesUsed(tenant));
  }

  // ---- namespaces

  /** Registers a namespace as its clients would. A node of another tenant can't. */
  NodeCall.Introduced introduce(Session session, NodeCall.Introduce introduce) {
    if (!mayPush(session)) {
      return introduced(session, Status.DENIED, roleRefusal(session));
    }
    Namespaces.Known told = Namespaces.ofText(introduce.text());
    Namespaces.Fingerprint name = new Namespaces.Fingerprint(introduce.high(), introduce.low());
    if (told == null || !Namespaces.fingerprintOf(introduce.text()).equals(name)) {
      return introduced(
          session, Status.INVALID_ARGUMENT, "the properties are not those of the fingerprint");
    }
    if (namespaces.tenants().number(told.tenant()) != session.tenant()) {
      return introduced(
          session,
          Status.DENIED,
          told.tenant().isEmpty()
              ? "the namespace is of no tenant, and the node's token is of one"
              : "the namespace is of tenant '"
                  + Printable.linesOf(told.tenant())
                  + "', and the node's token is not");
    }
    if (session.ended) {
      return introduced(session, Status.SESSION_ENDED, Status.SESSION_ENDED.meaning());
    }
    Registrations.Registered registered =
        registrations.register(session, told.blockBytes(), told.properties(), false);
    return introduced(session, registered.status(), registered.why());
  }

  private NodeCall.Introduced introduced(Session session, Status status, String why) {
    return new NodeCall.Introduced(status, why, room(session.tenant()));
  }

  // ---- blocks

  /** Gives a block a slot that the node's bytes go to, if the block may come here. */
  NodeCall.Reserved reserve(Session session, NodeCall.Pushed pushed) {
    NodeCall.Blocks blocks = pushed.blocks();
    Namespaces.Namespace namespace = namespaces.byFingerprint(blocks.high(), blocks.low());
    boolean isKnown = namespace != null && session.namespaces.get(namespace.id());
    if (!mayPush(session)) {
      return refused(session, Status.DENIED, roleRefusal(session));
    }
    if (session.ended) {
      return later(session, Status.SESSION_ENDED.meaning());
    }
    if (!isKnown || namespace == null) {
      return refused(
          session, Status.NAMESPACE_UNKNOWN, "the node has not named the block's namespace before");
    }
    // The block is sought last: it is inserted as what was sought.
    int parent = blocks.count() > 1 ? find(namespace, blocks, 1) : Directory.NONE;
    int block = find(namespace, blocks, 0);
    if (block != Directory.NONE) {
      return store.isVisible(block) || store.hasArrived(block)
          ? new NodeCall.Reserved.Have(room(session.tenant()))
          : later(session, "the block is on its way from elsewhere");
    }
    NodeCall.Reserved.No refusal = whyNot(session, namespace, pushed);
    return refusal == null ? reserveFresh(session, namespace, pushed, parent) : refusal;
  }

  private int find(Namespaces.Namespace namespace, NodeCall.Blocks blocks, int i) {
    return directory.find(
        namespace.id(), blocks.group(), blocks.keyBytes(), blocks.keys(), blocks.at(i));
  }

  private NodeCall.Reserved.@Nullable No whyNot(
      Session session, Namespaces.Namespace namespace, NodeCall.Pushed pushed) {
    if (drains.getAsBoolean()) {
      return refused(session, Status.NOT_ADMITTED, Status.NOT_ADMITTED.meaning());
    }
    boolean isEncoded = pushed.isEncoded();
    int sizeClass = first.classFor(namespace.id(), isEncoded);
    if ((isEncoded && namespace.encoding() == null)
        || pushed.blockBytes() != namespace.storedBytes(isEncoded)
        || sizeClass == SlotAllocator.NONE) {
      return refused(
          session,
          Status.INVALID_ARGUMENT,
          isEncoded && namespace.encoding() == null
              ? "the block is encoded, expected a raw one: the namespace has no encoding"
              : "the block has "
                  + pushed.blockBytes()
                  + " bytes, expected "
                  + namespace.storedBytes(isEncoded));
    }
    if (namespace.blockBytes() > shareBytes(namespace.tenant())) {
      return refused(
          session, Status.OVER_QUOTA, "pushed blocks fill their share (nodes.pushed_share)");
    }
    if (store.fresh().waiting(sizeClass) > 0) {
      return later(session, "clients wait for slots");
    }
    return session.mayHold(holdsPerSessionMax) ? null : later(session, "too much is reserved");
  }

  private NodeCall.Reserved reserveFresh(
      Session session, Namespaces.Namespace namespace, NodeCall.Pushed pushed, int parent) {
    NodeCall.Blocks blocks = pushed.blocks();
    int block = store.records().insertSought(namespace, blocks.group(), blocks.keyBytes(), true);
    if (block == Directory.NONE) {
      return refused(session, Status.BUSY, "there is no record for the block (limits.blocks)");
    }
    directory.set(Directory.FLAG_ENCODED, block, pushed.isEncoded());
    directory.setLineage(block, pushed.depth(), pushed.parent(), parent);
    directory.setImportance(block, pushed.importance());
    store.use(block);
    int sizeClass = first.sizeClass(block);
    // The checksum is the writer's: a slot will do that a client may still write.
    if (!store.reserve(block, sizeClass, SlotAllocator.DAEMON, true, SlotAllocator.ANY_LANE)) {
      store.endUse(block);
      return store.isRoomComing(sizeClass)
          ? later(session, "a slot is being made free")
          : refused(session, Status.BUSY, "no slot can come free in memory");
    }
    // The link's own deadline ends the reservation: nothing else may free a slot that is written.
    int hold = holds.take(HoldTable.RESERVATION, block, session, 0);
    directory.addUses(block, -1);
    if (hold == HoldTable.NONE) {
      store.abandon(block);
      return later(session, "too much is reserved");
    }
    directory.beginPushed(block);
    int slot = first.slot(block);
    return new NodeCall.Reserved.Go(
        holds.id(hold),
        first.slots().regionOf(slot),
        first.slots().offsetOf(slot),
        room(session.tenant()));
  }

  private NodeCall.Reserved.No later(Session session, String why) {
    return new NodeCall.Reserved.No(Status.PENDING, why, room(session.tenant()));
  }

  private NodeCall.Reserved.No refused(Session session, Status status, String why) {
    counters.add(Counter.NODE_TAKE_REFUSED, 1);
    return new NodeCall.Reserved.No(status, why, room(session.tenant()));
  }

  /** The bytes of a block have come, and are verified: the block becomes visible. */
  Status commit(Session session, long reservation, int checksum) {
    int hold = holds.find(reservation, HoldTable.RESERVATION, session);
    if (hold == HoldTable.NONE) {
      return Status.STALE;
    }
    int block = holds.block(hold);
    holds.free(hold, session);
    counters.add(Counter.NODE_TAKEN, 1);
    counters.add(Counter.NODE_TAKEN_BYTES, namespaces.storedBytes(directory, block));
    store.receive(block, checksum);
    return Status.OK;
  }

  /** The bytes of pushed blocks that nobody has used here. */
  void publishGauges() {
    long bytes = 0;
    for (int tenant = 0; tenant < namespaces.tenants().count(); tenant++) {
      bytes += directory.pushedBytes(tenant);
    }
    counters.set(Counter.GAUGE_PUSHED_BYTES, bytes);
  }
}
