package io.kvtier.daemon.index;

import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.gpu.CopyDirection;
import io.kvtier.tiers.gpu.DevicePipeline;
import io.kvtier.tiers.gpu.DeviceTransfer;
import io.kvtier.tiers.gpu.KvLayout;
import io.kvtier.tiers.gpu.Span;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.function.Consumer;

/**
 * Hands blocks to the GPUs' pipelines and takes them back: fills pooled transfers with blocks of
 * one operation, layer group by layer group, and tells when the last copy of a place is over.
 * Operations take their turns in the order in which they have something to copy. Confined to the
 * index.
 */
final class DeviceMoves {
  /** Hears how copies ended. */
  interface Listener {
    /** No copy of a place is under way any more, and none will be. */
    void onCopied(Operation operation, DeviceJob job, int place);
  }

  /** So many transfers can be under way: one more than the highest number of one. */
  static final int TRANSFERS = 512;

  /** A transfer of fewer bytes costs more than it is worth, one of more takes long to come back. */
  private static final int TRANSFER_BYTES = 4 << 20;

  /** The same of the layers that are counted: with fewer blocks, several are counted at once. */
  private static final int LAYERS_BYTES = 2 << 20;

  /** And of more runs it takes more memory than it should. */
  private static final int TRANSFER_RUNS = 1 << 16;

  /** All transfers that are under way together have no more, but for one that has them alone. */
  private static final long RUNS_MAX = 1 << 20;

  /** And of each block's: its layers are one piece on the host, and the link is slow with less. */
  private static final int LAYERS_BLOCK_BYTES = 64 << 10;

  private final BlockStore store;
  private final Operations operations;
  private final Listener listener;
  private final DeviceTransfer[] pool = new DeviceTransfer[TRANSFERS];
  private final int[] stack = new int[TRANSFERS];
  private final LongQueue line;
  private final Consumer<DeviceTransfer> onTransfer = this::settle;
  private final long[] runsOf = new long[TRANSFERS];
  private long runsUnderWay;
  private int free;

  DeviceMoves(BlockStore store, Operations operations, Listener listener) {
    this.store = store;
    this.operations = operations;
    this.listener = listener;
    line = new LongQueue(operations.max());
    for (int i = TRANSFERS - 1; i >= 0; i--) {
      pool[i] = new DeviceTransfer(i);
      stack[free++] = i;
    }
  }

  /** Cuts an operation into transfers: by layers, too, where somebody waits for each of them. */
  static void cut(DeviceJob job, int count, KvLayout layout) {
    int blockBytes = layout.blockBytes();
    int regionLayers = layout.layers();
    int layers = job.layers();
    if (job.progress != 0) {
      long layerBytes = Math.max(1, (long) blockBytes / regionLayers);
      long atLeast =
          Math.max(
              Math.ceilDiv(LAYERS_BYTES, layerBytes * Math.max(1, count)),
              Math.ceilDiv(LAYERS_BLOCK_BYTES, layerBytes));
      layers = Math.clamp(atLeast, 1, layers);
    }
    long bytes = Math.max(1, (long) blockBytes * layers / regionLayers);
    long blocks = Math.min(TRANSFER_BYTES / bytes, TRANSFER_RUNS / (layers * layout.runsOfLayer()));
    job.cutLayers(layers, Math.clamp(blocks, 1, DeviceTransfer.BLOCKS_MAX));
  }

  /** A place's bytes can be copied, from where they are or to where they shall be. */
  void ready(Operation operation, DeviceJob job, int place) {
    job.readyPlace[job.ready++] = place;
    job.due[place] = job.groups();
    if (!job.isInLine) {
      job.isInLine = true;
      if (!line.offer(operation.poolIndex)) {
        throw new IllegalStateException("the line of operations was not full");
      }
    }
  }

  /** Hands over what there is room for. */
  void advance() {
    while (line.size() > 0) {
      Operation operation = operations.at((int) line.peek());
      DeviceJob job = operation.job();
      if (!handOver(operation, job)) {
        return;
      }
      job.isInLine = false;
      long ignored = line.poll();
    }
  }

  private boolean handOver(Operation operation, DeviceJob job) {
    while (!job.isHandedOver()) {
      if (job.waveLayer >= job.endLayer) {
        job.waveFrom = job.waveEnd;
        job.waveNext = job.waveFrom;
        job.waveEnd = job.ready;
        job.waveLayer = job.firstLayer;
      }
      Region region = job.region;
      DevicePipeline pipeline = region == null ? null : region.pipeline;
      if (region == null || pipeline == null) {
        throw new IllegalStateException("copies to a region that is not open");
      }
      if (free == 0) {
        return false;
      }
      DeviceTransfer transfer = pool[stack[free - 1]];
      fill(transfer, operation, job);
      long runs = (long) transfer.layers.count() * transfer.count * region.layout.runsOfLayer();
      if (runsUnderWay > 0 && runsUnderWay + runs > RUNS_MAX) {
        return false;
      }
      if (!pipeline.offer(transfer)) {
        return false;
      }
      free--;
      runsUnderWay += runs;
      runsOf[transfer.poolIndex] = runs;
      for (int i = 0; i < transfer.count; i++) {
        job.handed[transfer.places[i]]++;
      }
      job.waveNext += transfer.count;
      if (job.waveNext == job.waveEnd) {
        job.waveNext = job.waveFrom;
        job.waveLayer += job.layersEach;
      }
    }
    return true;
  }

  private void fill(DeviceTransfer transfer, Operation operation, DeviceJob job) {
    SlotAllocator slots = store.host().slots();
    transfer.begin();
    transfer.direction =
        operation.verb == Verb.OFFLOAD ? CopyDirection.OFFLOAD : CopyDirection.ONBOARD;
    transfer.region = job.region == null ? null : job.region.opened;
    transfer.layers =
        new Span(job.waveLayer, Math.min(job.waveLayer + job.layersEach, job.endLayer));
    transfer.event = job.event;
    transfer.operation = operation.poolIndex;
    int count = Math.min(job.blocksEach, job.waveEnd - job.waveNext);
    for (int i = 0; i < count; i++) {
      int place = job.readyPlace[job.waveNext + i];
      int slot = store.host().slot(operation.block[place]);
      transfer.targets[i] = job.target[place];
      transfer.slabs[i] = slots.regionOf(slot);
      transfer.offsets[i] = slots.offsetOf(slot);
      transfer.places[i] = place;
    }
    transfer.count = count;
  }

  /** Settles what has come back. */
  int collect(Iterable<DevicePipeline> pipelines) {
    int count = 0;
    for (DevicePipeline pipeline : pipelines) {
      count += pipeline.collect(onTransfer);
    }
    return count;
  }

  private void settle(DeviceTransfer transfer) {
    Operation operation = operations.at(transfer.operation);
    DeviceJob job = operation.job();
    int group = (transfer.layers.from() - job.firstLayer) / job.layersEach;
    int count = transfer.count;
    Status status =
        transfer.status == Status.CANCELLED && job.cut != Status.OK ? job.cut : transfer.status;
    job.layerDone[group] += count;
    showProgress(operation, job);
    stack[free++] = transfer.poolIndex;
    runsUnderWay -= runsOf[transfer.poolIndex];
    // The operation may end with its last place, and be another's then: the transfer tells what
    // there is to do, which nobody fills again before this is over.
    for (int i = 0; i < count; i++) {
      int place = transfer.places[i];
      if (status != Status.OK && job.failure[place] == 0) {
        job.failure[place] = (byte) status.code();
      }
      if (--job.due[place] == 0) {
        job.finished++;
        listener.onCopied(operation, job, place);
      }
    }
  }

  /** Counts the leading layers that are done, for whoever waits for each. */
  private void showProgress(Operation operation, DeviceJob job) {
    boolean allReady = operation.open == job.ready - job.finished;
    if (job.progress == 0 || !allReady || operation.departed != null) {
      return;
    }
    int done = 0;
    while (done < job.groups() && job.layerDone[done] == job.ready) {
      done++;
    }
    Words.putIntRelease(
        operations.sessionOf(operation).segment(),
        SessionRegionDescriptor.PROGRESS_OFFSET + 4L * (job.progress - 1),
        Math.min(done * job.layersEach, job.layers()));
  }

  /**
   * What was not handed over is left out, and what waits for an event is given up. Places of which
   * nothing is under way then are told of at once.
   */
  void giveUp(Operation operation, DeviceJob job, Status status) {
    int ready = job.ready;
    job.waveEnd = ready;
    job.waveLayer = job.endLayer;
    for (DeviceTransfer transfer : pool) {
      if (transfer.operation == operation.poolIndex) {
        // One that is in the pool is made ready anew before it is offered.
        transfer.giveUp();
      }
    }
    for (int i = 0; i < ready; i++) {
      int place = job.readyPlace[i];
      int left = job.groups() - job.handed[place];
      if (left > 0) {
        job.handed[place] += left;
        job.failure[place] = (byte) status.code();
        job.due[place] -= left;
        if (job.due[place] == 0) {
          job.finished++;
          listener.onCopied(operation, job, place);
        }
      }
    }
  }

  /** Transfers that are under way. */
  int inFlight() {
    return TRANSFERS - free;
  }

  /** Whether all that could be copied was handed over. */
  boolean isIdle() {
    return free == TRANSFERS && line.size() == 0;
  }
}
