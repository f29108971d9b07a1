package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.layout.IndexRange;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.gpu.CopyDirection;
import io.kvtier.tiers.gpu.DevicePipeline;
import io.kvtier.tiers.gpu.DeviceTransfer;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Hands blocks to the GPUs' pipelines and takes them back: fills pooled transfers with blocks of
 * one operation, layer group by layer group, and tells when the last copy of a place is over.
 * Operations of a GPU take their turns in the order in which they have something to copy ({@link
 * DeviceLine}). Confined to the index.
 */
public final class DeviceMoves {
  /** Hears how copies ended. */
  interface Listener {
    /** The last copy of a place is over. */
    void onCopied(Operation operation, DeviceJob job, int place);
  }

  /** Bytes of a transfer: a smaller one costs more per byte, a larger one returns later. */
  private static final int TRANSFER_BYTES = 4 << 20;

  /** Bytes of a transfer whose layers are counted: with few blocks, it takes several layers. */
  private static final int LAYERS_BYTES = 2 << 20;

  /** Maximum entries in the list of runs of one transfer. */
  private static final int TRANSFER_ENTRIES = 1 << 16;

  /** Bytes of one block in a transfer: the link is slow with smaller pieces of host memory. */
  private static final int LAYERS_BLOCK_BYTES = 64 << 10;

  /**
   * Bytes of one encoded block in a transfer, in its encoded form. The driver's calls for smaller
   * pieces take longer than the link.
   */
  private static final int LAYERS_ENCODED_BYTES = 128 << 10;

  private final BlockStore store;
  private final Directory directory;
  private final Operations operations;
  private final DeviceJobs jobs;
  private final Advertisements advertised;
  private final Listener listener;

  /** One line for each GPU that was ever copied to or from. */
  private final List<DeviceLine> lines = new ArrayList<>();

  private final Consumer<DeviceTransfer> onTransfer = this::settle;

  /** Entries of each block in the transfer that was filled last. */
  private long entriesOfBlock;

  DeviceMoves(
      BlockStore store,
      Directory directory,
      Operations operations,
      DeviceJobs jobs,
      Advertisements advertised,
      Listener listener) {
    this.store = store;
    this.directory = directory;
    this.operations = operations;
    this.jobs = jobs;
    this.advertised = advertised;
    this.listener = listener;
  }

  /** Cuts an operation into transfers: also by layers, if the client waits for each layer. */
  static void cut(DeviceJob job, int count, Region region) {
    KvLayout layout = region.layout;
    long layerBytes = Math.max(1, layout.layerBytes());
    int layers = job.layers();
    if (job.progress.isWanted()) {
      layers = Math.clamp(layersTogether(layerBytes, region.encoding, count), 1, layers);
    }
    long bytes = layerBytes * layers;
    long blocks =
        Math.min(TRANSFER_BYTES / bytes, TRANSFER_ENTRIES / (layers * layout.entriesPerLayer()));
    job.cutLayers(layers, Math.clamp(blocks, 1, DeviceTransfer.BLOCKS_MAX));
  }

  /**
   * How many layers go together where the client waits for each.
   *
   * @param layerBytes the raw bytes of a layer of a block
   * @param encoding how the blocks can be encoded; null: they are raw
   * @param count how many blocks there are
   */
  static long layersTogether(long layerBytes, @Nullable BlockEncoding encoding, int count) {
    long ofBlock =
        encoding == null
            ? LAYERS_BLOCK_BYTES
            : Math.ceilDiv(
                (long) LAYERS_ENCODED_BYTES * encoding.rawGranuleBytes(),
                encoding.encodedGranuleBytes());
    return Math.max(
        Math.ceilDiv(LAYERS_BYTES, layerBytes * Math.max(1, count)),
        Math.ceilDiv(ofBlock, layerBytes));
  }

  /** The bytes of a place can be copied now. */
  void ready(Operation operation, DeviceJob job, int place) {
    job.readyPlace[job.ready++] = place;
    job.due[place] = job.groups();
    job.handed[place] = 0;
    job.failure[place] = 0;
    job.isFlawed[place] = false;
    boolean isLent = job.lent[place] != Advertisements.NONE;
    int block = operation.block[place];
    // All copies of a place have one form, although the block can become raw meanwhile.
    job.slot[place] = isLent ? Directory.NONE : store.first().slot(block);
    job.isEncoded[place] = !isLent && directory.has(Directory.FLAG_ENCODED, block);
    lineOf(job).add(operation, job);
  }

  private DeviceLine lineOf(DeviceJob job) {
    Region region = job.region;
    DevicePipeline pipeline = region == null ? null : region.pipeline;
    if (pipeline == null) {
      throw new IllegalStateException("copies to a region that is not open");
    }
    for (int i = 0; i < lines.size(); i++) {
      if (lines.get(i).isOf(pipeline)) {
        return lines.get(i);
      }
    }
    DeviceLine made = new DeviceLine(pipeline, operations.max(), onTransfer);
    lines.add(made);
    return made;
  }

  /** The outcome of handing an operation's blocks over. */
  private enum Handed {
    ALL,
    /** There is no room for the rest. */
    FULL,
    /**
     * There is no room for the rest, which waits for an event. Copies without an event may find
     * room.
     */
    FULL_OF_EVENTS
  }

  /** Hands over the copies that the pipelines take. */
  void advance() {
    for (int i = 0; i < lines.size(); i++) {
      advance(lines.get(i));
    }
  }

  private void advance(DeviceLine line) {
    line.begin();
    for (int first = line.first(); first >= 0; first = line.first()) {
      Operation operation = operations.at(first);
      DeviceJob job = jobs.of(operation);
      switch (line.isFirst(job) ? handOver(line, operation, job) : Handed.ALL) {
        case ALL -> line.removeFirst();
        case FULL_OF_EVENTS -> line.leaveEventsOut();
        case FULL -> {
          return;
        }
      }
    }
  }

  private Handed handOver(DeviceLine line, Operation operation, DeviceJob job) {
    while (!job.isHandedOver()) {
      if (job.waveLayer >= job.endLayer) {
        job.waveFrom = job.waveEnd;
        job.waveNext = job.waveFrom;
        job.waveEnd = job.ready;
        job.waveLayer = job.firstLayer;
      }
      Region region = job.region;
      if (region == null) {
        throw new IllegalStateException("copies to a region that is not open");
      }
      DeviceTransfer transfer = line.spare();
      if (transfer == null) {
        return Handed.FULL;
      }
      int taken = fill(transfer, operation, job, region);
      if (transfer.count > 0) {
        long entries = transfer.count * entriesOfBlock;
        if (job.event != 0 && line.isFullOfEvents(entries)) {
          return Handed.FULL_OF_EVENTS;
        }
        if (line.isFull(entries) || !line.offer(transfer, entries)) {
          return Handed.FULL;
        }
        for (int i = 0; i < transfer.count; i++) {
          job.handed[transfer.places[i]]++;
        }
      }
      job.waveNext += taken;
      if (job.waveNext == job.waveEnd) {
        job.waveNext = job.waveFrom;
        job.waveLayer += job.layersEach;
      }
    }
    return Handed.ALL;
  }

  /**
   * Fills a transfer with places whose blocks come from, or go to, the same region or the host, and
   * are there in the same form.
   *
   * @return how many ready entries were passed, including entries without a place
   */
  private int fill(DeviceTransfer transfer, Operation operation, DeviceJob job, Region region) {
    SlotAllocator slots = store.first().slots();
    transfer.begin();
    int at = job.waveNext;
    while (at < job.waveEnd && job.readyPlace[at] == DeviceJob.NO_PLACE) {
      at++;
    }
    Region source = at < job.waveEnd ? sourceOf(job, job.readyPlace[at]) : null;
    transfer.direction =
        source != null
            ? CopyDirection.PEER
            : operation.verb == Verb.OFFLOAD ? CopyDirection.OFFLOAD : CopyDirection.ONBOARD;
    transfer.region = region.opened;
    transfer.source = source == null ? null : source.opened;
    transfer.layers =
        new IndexRange(job.waveLayer, Math.min(job.waveLayer + job.layersEach, job.endLayer));
    boolean isEncoded = at < job.waveEnd && job.isEncoded[job.readyPlace[at]];
    transfer.encoding = isEncoded ? region.encoding : null;
    transfer.event = job.event;
    transfer.operation = operation.poolIndex;
    int most = job.blocksEach;
    if (source == null) {
      entriesOfBlock = transfer.layers.count() * region.entriesOfLayer;
    } else {
      // Between two layouts, each run of either side can become an entry.
      entriesOfBlock = transfer.layers.count() * (region.runsOfLayer + source.runsOfLayer);
      most = Math.clamp(TRANSFER_ENTRIES / entriesOfBlock, 1, most);
    }
    int count = 0;
    for (; at < job.waveEnd && count < most; at++) {
      int place = job.readyPlace[at];
      if (place == DeviceJob.NO_PLACE) {
        continue;
      }
      if (sourceOf(job, place) != source || job.isEncoded[place] != isEncoded) {
        break;
      }
      transfer.targets[count] = job.target[place];
      transfer.places[count] = place;
      if (source == null) {
        int slot = job.slot[place];
        transfer.slabs[count] = slots.regionOf(slot);
        transfer.offsets[count] = slots.offsetOf(slot);
      } else {
        transfer.sources[count] = advertised.block(job.lent[place]);
      }
      count++;
    }
    transfer.count = count;
    return at - job.waveNext;
  }

  /**
   * The region that a place's block comes from; null when it comes from the host, or goes there.
   */
  private @Nullable Region sourceOf(DeviceJob job, int place) {
    int one = job.lent[place];
    return one == Advertisements.NONE ? null : advertised.owner(one);
  }

  /** Settles finished transfers. */
  int collect() {
    int count = 0;
    for (int i = 0; i < lines.size(); i++) {
      count += lines.get(i).collect();
    }
    return count;
  }

  private void settle(DeviceTransfer transfer) {
    Operation operation = operations.at(transfer.operation);
    DeviceJob job = jobs.of(operation);
    int group = (transfer.layers.from() - job.firstLayer) / job.layersEach;
    int count = transfer.count;
    Status status =
        transfer.status == Status.CANCELLED && job.cut != Status.OK ? job.cut : transfer.status;
    if (transfer.source != null && (status != Status.OK || hasLostItsOwner(transfer, job))) {
      // These blocks will come from elsewhere: until then, no further layer counts as done.
      job.progress.holdBack();
    }
    long flaws = status == Status.OK ? transfer.flaws : 0;
    if (flaws != 0) {
      // These blocks will be copied once more, or have wrong bytes.
      job.progress.holdBack();
    }
    job.layerDone[group] += count;
    showProgress(operation, job);
    // The operation may end with its last place, and be reused. The loop reads the transfer, which
    // is not reused before the loop ends.
    for (int i = 0; i < count; i++) {
      int place = transfer.places[i];
      if (status != Status.OK && job.failure[place] == 0) {
        job.failure[place] = (byte) status.code();
      }
      job.isFlawed[place] |= (flaws >>> i & 1) != 0;
      if (--job.due[place] == 0) {
        job.finished++;
        listener.onCopied(operation, job, place);
      }
    }
  }

  /**
   * Whether the source region of a transfer has gone. All blocks of a transfer are of one region.
   */
  private boolean hasLostItsOwner(DeviceTransfer transfer, DeviceJob job) {
    int one = job.lent[transfer.places[0]];
    return one != Advertisements.NONE && advertised.owner(one).isLeft();
  }

  /** Shows the number of leading layers that are done to a client that waits for each layer. */
  private void showProgress(Operation operation, DeviceJob job) {
    boolean allReady = operation.open == job.ready - job.finished;
    if (!job.progress.isWanted() || !allReady || operation.departed != null) {
      return;
    }
    int done = 0;
    while (done < job.groups() && job.layerDone[done] == job.ready) {
      done++;
    }
    job.progress.show(operations.sessionOf(operation), done * job.layersEach);
  }

  /**
   * Leaves out the copies that were not handed over, and gives up those that wait for an event. The
   * listener hears at once of the places without a copy under way.
   */
  void giveUp(Operation operation, DeviceJob job, Status status) {
    int ready = job.ready;
    job.waveEnd = ready;
    job.waveLayer = job.endLayer;
    for (DeviceLine line : lines) {
      line.forEach(transfer -> {
        if (transfer.operation == operation.poolIndex) {
          // A transfer in the pool is prepared anew before it is offered.
          transfer.giveUp();
        }
      });
    }
    for (int i = 0; i < ready; i++) {
      leaveOut(operation, job, i, status);
    }
  }

  /** Leaves out the copies of a place that were not handed over; false when there are none. */
  private boolean leaveOut(Operation operation, DeviceJob job, int at, Status status) {
    int place = job.readyPlace[at];
    int left = place == DeviceJob.NO_PLACE ? 0 : job.groups() - job.handed[place];
    if (left == 0) {
      return false;
    }
    job.readyPlace[at] = DeviceJob.NO_PLACE;
    job.handed[place] += left;
    job.failure[place] = (byte) status.code();
    job.due[place] -= left;
    if (job.due[place] == 0) {
      job.finished++;
      listener.onCopied(operation, job, place);
    }
    return true;
  }

  /**
   * Leaves out the copies of revoked blocks that have not begun: they are not handed over, and no
   * longer wait for an event.
   */
  void giveUpRevoked() {
    for (DeviceLine line : lines) {
      line.forEach(transfer -> {
        if (transfer.source != null && transfer.event != 0 && hasRevoked(transfer)) {
          transfer.giveUp();
        }
      });
    }
    for (int i = 0; i < operations.max(); i++) {
      Operation operation = operations.at(i);
      if (operation.active && operation.verb == Verb.ONBOARD && jobs.of(operation).lentPlaces > 0) {
        leaveOutRevoked(operation, jobs.of(operation));
      }
    }
  }

  private boolean hasRevoked(DeviceTransfer transfer) {
    // A transfer in the pool is prepared anew before it is offered.
    DeviceJob job = jobs.of(operations.at(transfer.operation));
    for (int i = 0; i < transfer.count; i++) {
      int one = job.lent[transfer.places[i]];
      if (one != Advertisements.NONE && advertised.isRevoked(one)) {
        return true;
      }
    }
    return false;
  }

  private void leaveOutRevoked(Operation operation, DeviceJob job) {
    // Places that become ready in this loop are not looked at.
    int ready = job.ready;
    for (int i = 0; i < ready; i++) {
      int place = job.readyPlace[i];
      int one = place == DeviceJob.NO_PLACE ? Advertisements.NONE : job.lent[place];
      if (one != Advertisements.NONE
          && advertised.isRevoked(one)
          && leaveOut(operation, job, i, Status.CANCELLED)) {
        job.progress.holdBack();
      }
    }
  }

  /** Transfers that are under way. */
  public int inFlight() {
    int count = 0;
    for (int i = 0; i < lines.size(); i++) {
      count += lines.get(i).inFlight();
    }
    return count;
  }

  /** Whether all that could be copied was handed over. */
  public boolean isIdle() {
    for (int i = 0; i < lines.size(); i++) {
      if (!lines.get(i).isIdle()) {
        return false;
      }
    }
    return true;
  }
}
