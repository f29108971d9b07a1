package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.session.ProgressWord;
import io.kvtier.protocol.Status;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * What an OFFLOAD or ONBOARD is besides an operation: which blocks of which region, which of its
 * layers, and how far the copies have come. Belongs to an operation of the pool; its arrays grow to
 * the largest batch seen and stay.
 *
 * <p>Places whose bytes can be copied are ready, in the order in which they became so. They are
 * handed to the pipeline in waves: those that are ready, layer group by layer group, then those
 * that became ready meanwhile.
 */
public final class DeviceJob {
  static final int NO_PLACE = -1;

  @Nullable Region region;
  int firstLayer;
  int endLayer;

  /** Which event of the region the copies wait for, from 1; 0: none. */
  int event;

  /** Counts the layers that are done. */
  final ProgressWord progress = new ProgressWord();

  /** Layers of one transfer, and blocks. */
  int layersEach;

  int blocksEach;

  /** How an ONBOARD asks the tiers, also where a region could not give a block after all. */
  public int priority;

  public boolean noWait;

  /** Why the rest of it is not done; OK: it is. */
  Status cut = Status.OK;

  int ready;

  /** Places of which every copy has come back. */
  int finished;

  int waveFrom;
  int waveEnd;
  int waveNext;
  int waveLayer;

  /** Each place's block in the region. */
  int[] target = new int[0];

  /**
   * Places, in the order in which they became ready; {@link #NO_PLACE} where one is to be copied no
   * more. One that a region could not give, and one whose block did not fit, becomes ready once
   * more.
   */
  int[] readyPlace = new int[0];

  /** The slot of each place that is ready. */
  int[] slot = new int[0];

  /** Whether the block of each place that is ready is copied in its encoded form. */
  boolean[] isEncoded = new boolean[0];

  /** Each place's advertisement, while its block comes from another region. */
  int[] lent = new int[0];

  /** How many places that are. */
  int lentPlaces;

  /** Each place's transfers that have not come back, and those that were handed over at all. */
  int[] due = new int[0];

  int[] handed = new int[0];

  /** What the first failure of a place was. */
  byte[] failure = new byte[0];

  /** Places whose block did not fit into its encoded form, or is damaged there. */
  boolean[] isFlawed = new boolean[0];

  /** Each layer group's transfers of blocks that have come back, in blocks. */
  int[] layerDone = new int[0];

  void begin(Region ofRegion, int count) {
    region = ofRegion;
    cut = Status.OK;
    lentPlaces = 0;
    ready = 0;
    finished = 0;
    waveFrom = 0;
    waveEnd = 0;
    waveNext = 0;
    waveLayer = endLayer;
    if (target.length < count) {
      int capacity = Math.max(64, Integer.highestOneBit(count - 1) << 1);
      target = new int[capacity];
      readyPlace = new int[2 * capacity];
      slot = new int[capacity];
      isEncoded = new boolean[capacity];
      lent = new int[capacity];
      due = new int[capacity];
      handed = new int[capacity];
      failure = new byte[capacity];
      isFlawed = new boolean[capacity];
    }
    Arrays.fill(due, 0, count, 0);
    Arrays.fill(handed, 0, count, 0);
    Arrays.fill(lent, 0, count, Advertisements.NONE);
    Arrays.fill(failure, 0, count, (byte) 0);
    Arrays.fill(isFlawed, 0, count, false);
  }

  /** Its operation has ended: should it stand in a line still, it has nothing to hand over. */
  void end() {
    region = null;
    waveEnd = ready;
    waveLayer = endLayer;
  }

  /** How the layers are cut: all at once, or one by one where somebody waits for each. */
  void cutLayers(int layersOfOne, int blocksOfOne) {
    layersEach = layersOfOne;
    blocksEach = blocksOfOne;
    int groups = groups();
    if (layerDone.length < groups) {
      layerDone = new int[groups];
    }
    Arrays.fill(layerDone, 0, groups, 0);
  }

  /** Whether a place's slot is there: its copies are due, or were handed over. */
  boolean hasSlot(int place) {
    return due[place] + handed[place] > 0;
  }

  int layers() {
    return endLayer - firstLayer;
  }

  /** How many transfers each block takes. */
  int groups() {
    return Math.ceilDiv(layers(), layersEach);
  }

  /** Whether everything that is ready was handed over. */
  boolean isHandedOver() {
    return waveLayer >= endLayer && waveEnd == ready;
  }
}
