package io.kvtier.daemon.index.transfer;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.core.TransferWatch;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.daemon.index.source.Sources;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Transfer;
import java.util.Arrays;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Reads from sources, and writes to the object store. Confined to the index. */
public final class SourceMoves {
  // Uploads leave places for fetches, because clients wait for fetches.
  private static final double UPLOADS_SHARE = 0.5;
  private static final int FETCHES_AT_ONCE = 16;

  private final TransferPool pool;
  private final Directory directory;
  private final Tenants tenants;
  private final Sources sources;
  private final @Nullable ObjectParts objects;
  private final Departures departures;
  private final TransferWatch watch;
  private final int objectDepth;
  private final int objectSource;
  private final int[][] inFlightOf;
  private final double[] fetchNs;

  /** Writes under way, relays among them. */
  private int uploads;

  private final int[] uploadsOf;

  /**
   * Nothing is under way.
   *
   * @param objects null when there is no object tier; else it is the last source
   * @param watch knows the requests that wait for reads
   */
  SourceMoves(
      TransferPool pool,
      Directory directory,
      Tenants tenants,
      Sources sources,
      @Nullable ObjectParts objects,
      Departures departures,
      TransferWatch watch) {
    this.watch = watch;
    this.pool = pool;
    this.directory = directory;
    this.tenants = tenants;
    this.sources = sources;
    this.objects = objects;
    this.departures = departures;
    objectDepth = objects == null ? 0 : objects.traffic().depth();
    objectSource = sources.count() - 1;
    inFlightOf = new int[sources.count()][tenants.count()];
    fetchNs = new double[sources.count()];
    Arrays.fill(fetchNs, 10e6);
    uploadsOf = new int[tenants.count()];
  }

  /** Whether a read of a tenant's from a source could be handed over now. */
  public boolean canFetch(int tenant, int source) {
    int depth = sources.at(source).depth();
    return !pool.isEmpty()
        && sources.at(source).pipeline().inFlight() < depth
        && inFlightOf[source][tenant] < tenants.shareOf(depth, tenant);
  }

  /** Whether an upload of a tenant's could be handed over now: fetches have their share. */
  public boolean canUpload(int tenant) {
    int uploadsMax = Math.max(1, (int) (objectDepth * UPLOADS_SHARE));
    return objects != null
        && canFetch(tenant, objectSource)
        && uploads < uploadsMax
        && uploadsOf[tenant] < tenants.shareOf(uploadsMax, tenant);
  }

  /** Reads from a source to a block's first slot; false when that can't be started now. */
  public boolean fetch(int block, int source, int priority) {
    if (!canFetch(pool.tenantOf(block), source)) {
      return false;
    }
    Transfer transfer =
        pool.takeFirst(block, Transfer.Kind.LOAD, priority, TransferPool.Purpose.PLAIN);
    pool.setFrom(transfer, TransferPool.OUTSIDE - source);
    watch.fetching(transfer);
    return start(transfer, source);
  }

  /** The source that a fetch has read. */
  int sourceOf(Transfer fetch) {
    return TransferPool.OUTSIDE - pool.from(fetch);
  }

  /** A read from a source is over. */
  void fetched(Transfer fetch) {
    int source = sourceOf(fetch);
    inFlightOf[source][fetch.owner]--;
    if (fetch.status == Status.OK) {
      directory.setChecksum(fetch.block, fetch.checksum);
      directory.setLineage(fetch.block, fetch.depth, fetch.parent);
      fetchNs[source] += 0.1 * (fetch.elapsedNs - fetchNs[source]);
    }
  }

  /** Writes a block's first copy to an object; false when that can't be started now. */
  public boolean upload(int block, boolean evict) {
    if (!canUpload(pool.tenantOf(block))) {
      return false;
    }
    Transfer transfer = pool.takeStore(block, evict, TransferPool.OUTSIDE);
    if (!start(transfer, objectSource)) {
      return false;
    }
    countUpload(transfer.owner, evict, 1);
    departures.store(block, evict, 1);
    return true;
  }

  private boolean start(Transfer transfer, int source) {
    if (!sources.at(source).pipeline().offer(transfer)) {
      return pool.takeBack();
    }
    inFlightOf[source][transfer.owner]++;
    return pool.started(transfer);
  }

  /**
   * Counts a write to an object that begins, or is over, whether it was handed over or not.
   *
   * @param departs whether the block leaves this node afterwards
   */
  void countUpload(int tenant, boolean departs, int more) {
    uploads += more;
    uploadsOf[tenant] += more;
    departures.depart(tenant, departs ? more : 0);
  }

  /** Hands a relay's write over; false when that can't be started now. */
  boolean write(Transfer relay) {
    if (objects == null
        || objects.traffic().pipeline().inFlight() >= objectDepth
        || !objects.traffic().pipeline().offer(relay)) {
      return false;
    }
    inFlightOf[objectSource][relay.owner]++;
    return true;
  }

  /** A write to an object that was handed over is over. */
  void written(Transfer upload) {
    inFlightOf[objectSource][upload.owner]--;
  }

  /** The expected time to read that many blocks from a source, ns, as measured. */
  public long estimatedFetchNs(int source, int blocks) {
    return blocks == 0 ? 0 : (long) (fetchNs[source] * (1 + blocks / FETCHES_AT_ONCE));
  }

  // ---- transfers under way

  int collect(Consumer<Transfer> finished) {
    int count = 0;
    for (int i = 0; i < sources.count(); i++) {
      count += sources.at(i).pipeline().collect(finished);
    }
    return count;
  }

  /** Uploads and fetches under way. */
  public int inFlight() {
    int count = 0;
    for (int i = 0; i < sources.count(); i++) {
      count += sources.at(i).pipeline().inFlight();
    }
    return count;
  }

  boolean hasFinished() {
    for (int i = 0; i < sources.count(); i++) {
      if (sources.at(i).pipeline().hasFinished()) {
        return true;
      }
    }
    return false;
  }
}
