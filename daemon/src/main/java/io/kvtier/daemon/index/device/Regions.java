package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.Shard;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.gpu.DeviceRegion;
import io.kvtier.tiers.gpu.DeviceRegionSpec;
import io.kvtier.tiers.gpu.GpuTier;
import io.kvtier.tiers.gpu.RegionOrder;
import io.kvtier.tiers.gpu.RegionText;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * REGISTER_REGION and UNREGISTER_REGION: has engines' regions opened, shown to other GPUs, and
 * closed. A region is closed when no client can name it any more and its last copy is over.
 * Confined to the index.
 */
final class Regions {
  /** The most regions of a session. */
  static final int REGIONS_MAX = 64;

  private final @Nullable GpuTier gpus;
  private final Namespaces namespaces;
  private final Operations operations;
  private final CompletionWriter writer;
  private final RegionTable table;
  private final Consumer<RegionOrder> onOrder = this::ordered;
  private int nextRegion = 1;

  /**
   * Without a region yet.
   *
   * @param gpus null where the daemon is started without GPUs
   */
  Regions(@Nullable GpuTier gpus, IndexCore core, SessionParts parts) {
    this.gpus = gpus;
    namespaces = core.namespaces();
    operations = parts.operations();
    writer = parts.writer();
    table = new RegionTable(core.limits().sessionsMax());
  }

  /** The regions that are not closed. */
  RegionTable table() {
    return table;
  }

  /** Has a region opened; answered when the region is open, or with the reason why not. */
  void register(Session session, Request request, String text) throws ProtocolViolation {
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    if (namespace == null) {
      throw new IllegalStateException("a request for a namespace that was forgotten");
    }
    if (gpus == null && !RegionText.isOnHost(text)) {
      refuse(session, request, "this daemon is started without GPUs");
      return;
    }
    DeviceRegionSpec spec;
    try {
      spec = RegionText.parse(text, session.passedMemory()::take);
    } catch (IllegalArgumentException e) {
      refuse(session, request, String.valueOf(e.getMessage()));
      return;
    }
    String why = problem(session, namespace, spec);
    if (why != null) {
      refuse(session, request, why);
      spec.close();
    } else if (spec.isOnHost()) {
      Region region = new Region(nextRegion++, namespace, spec, session.share, null);
      table.add(session, region);
      writer.completeShort(session, request, Status.OK, region.id);
    } else if (!order(session, request, namespace, spec)) {
      spec.close();
    }
  }

  /** Why a region can't be registered, in words; null when it can. */
  private @Nullable String problem(
      Session session, Namespaces.Namespace namespace, DeviceRegionSpec spec) {
    KvLayout layout = spec.layout();
    if (layout.blockBytes() != namespace.blockBytes()) {
      return "a block of the region has "
          + layout.blockBytes()
          + " bytes, one of namespace '"
          + namespace.name()
          + "' "
          + namespace.blockBytes();
    }
    if (spec.isOnHost() && namespace.encoding() != null) {
      return "the blocks of namespace '"
          + namespace.name()
          + "' can be encoded, and engines that copy blocks themselves don't read encoded ones:"
          + " register a namespace without "
          + BlockEncoding.PROPERTY;
    }
    String form = namespace.properties().get(KvLayout.FORM_PROPERTY);
    Shard shard = layout.shard();
    if (form == null && !shard.isWhole()) {
      return "namespace '"
          + namespace.name()
          + "' has no property '"
          + KvLayout.FORM_PROPERTY
          + "', and the region has only some layers or heads of its blocks: register a namespace"
          + " with "
          + KvLayout.FORM_PROPERTY
          + "="
          + layout.blockForm();
    }
    if (form != null && !form.equals(layout.blockForm())) {
      return "blocks of namespace '"
          + namespace.name()
          + "' have the form "
          + form
          + ", blocks of the region the form "
          + layout.blockForm();
    }
    if (shard.heads().count() < shard.blockHeads() && !ShardBits.canShareHeads(shard)) {
      return ShardBits.problem(shard);
    }
    return table.of(session).size() == REGIONS_MAX
        ? "the session has " + REGIONS_MAX + " regions, which is the limit: unregister one first"
        : null;
  }

  private GpuTier opener() {
    GpuTier opener = gpus;
    if (opener == null) {
      throw new IllegalStateException("a region on a GPU, in a daemon without GPUs");
    }
    return opener;
  }

  /** Has a region opened; false when the request was refused. */
  private boolean order(
      Session session, Request request, Namespaces.Namespace namespace, DeviceRegionSpec spec)
      throws ProtocolViolation {
    Operation operation = operations.begin(session, request, 0);
    if (operation == null) {
      return false;
    }
    Region region = new Region(nextRegion++, namespace, spec, session.share, operation);
    table.add(session, region);
    operation.open = 1;
    operations.promise(session, operation, request);
    opener().order(RegionOrder.open(region.id, spec, namespace.encoding()));
    return true;
  }

  /**
   * Begins to close a region; answered when the region is closed. {@link #closeUnused} goes on with
   * it.
   *
   * @return the region; null when the request was refused
   */
  @Nullable Region unregister(Session session, Request request) throws ProtocolViolation {
    Region region = table.of(session, (int) request.argument);
    if (region == null || region.waiting != null) {
      refuse(session, request, "the session has no region " + request.argument);
      return null;
    }
    if (region.isOnHost) {
      table.leave(session, region);
      table.remove(region);
      writer.completeShort(session, request, Status.OK, 0);
      return null;
    }
    Operation operation = operations.begin(session, request, 0);
    if (operation == null) {
      return null;
    }
    table.leave(session, region);
    region.isClosing = true;
    region.waiting = operation;
    operation.open = 1;
    operations.promise(session, operation, request);
    return region;
  }

  private void refuse(Session session, Request request, String why) throws ProtocolViolation {
    writer.refuse(session, request, Status.INVALID_ARGUMENT, why);
  }

  /** Shows a region to other GPUs. */
  void share(Region region) {
    DeviceRegion opened = region.opened;
    if (gpus != null && opened != null) {
      gpus.order(RegionOrder.share(region.id, opened));
    }
  }

  /** Closes a region that no client can name any more, and that no operation copies to or from. */
  void closeUnused(Region region) {
    if (region.isOnHost) {
      table.remove(region);
      return;
    }
    DeviceRegion opened = region.opened;
    boolean isUnused = region.jobs == 0 && region.lent == 0;
    if (region.isClosing && isUnused && !region.isOrdered && opened != null && gpus != null) {
      region.isOrdered = true;
      gpus.order(RegionOrder.close(region.id, opened));
    }
  }

  /** Ends the request to open or close a region before its time. */
  void cutShort(Operation operation, Status status) {
    for (Region region : table.all()) {
      if (region.waiting == operation) {
        region.waiting = null;
        if (region.opened == null) {
          table.leave(operations.sessionOf(operation), region);
          region.isClosing = true;
        }
      }
    }
    operation.outcome = status;
  }

  // ---- orders

  /** Settles orders that are carried out; returns how many. */
  int collect() {
    return gpus == null ? 0 : gpus.collect(onOrder);
  }

  private void ordered(RegionOrder order) {
    Region region = table.byId(order.region);
    if (region == null) {
      throw new IllegalStateException("region " + order.region + " was forgotten too early");
    }
    if (order.isShare) {
      shared(region);
      return;
    }
    Operation waiting = region.waiting;
    region.waiting = null;
    if (order.isOpen() && order.refusal == null) {
      region.opened = order.opened;
      region.pipeline = order.pipeline;
      region.isStoredRaw = order.isStoredRaw;
      if (waiting != null) {
        waiting.value = region.id;
      }
      closeUnused(region);
    } else {
      table.remove(region);
      region.forget();
      if (waiting != null && order.isOpen()) {
        table.leave(operations.sessionOf(waiting), region);
        waiting.outcome = Status.INVALID_ARGUMENT;
        waiting.refusal = order.refusal;
      }
    }
    if (waiting != null) {
      operations.closePlace(waiting);
    }
  }

  /** The other GPUs that can see a region see it now: the ADVERTISEs that waited are answered. */
  private void shared(Region region) {
    region.isSeen = true;
    for (Operation operation : region.sharing) {
      operations.closePlace(operation);
    }
    region.sharing.clear();
  }
}
