package io.kvtier.daemon;

import io.kvtier.daemon.config.KvtierdConfig.SsdConfig;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.LedgerLeg;
import io.kvtier.tiers.ledger.LedgerThread;
import io.kvtier.tiers.ledger.RocksLedger;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.ssd.DirectoryLock;
import io.kvtier.tiers.ssd.FileDevice;
import io.kvtier.tiers.ssd.RocksDevice;
import io.kvtier.tiers.ssd.SlotDevice;
import io.kvtier.tiers.ssd.SlotHeaderDescriptor;
import io.kvtier.tiers.ssd.SsdEngine;
import io.kvtier.tiers.ssd.SsdListeners;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The SSD tier's devices: for each directory its files, the ledger of their blocks, and the
 * pipeline that reads and writes both.
 */
final class SsdTier implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(SsdTier.class);

  /** Maximum ledger deletes in flight, besides stores. */
  private static final int FORGETS_MAX = 64;

  private final Deque<AutoCloseable> parts = new ArrayDeque<>();
  private final List<Pipeline> pipelines = new ArrayList<>();
  private final List<Ledger> ledgers = new ArrayList<>();
  private final SlotAllocator slots;
  private boolean isDirect = true;
  private String engine = "";

  /**
   * Opens all directories.
   *
   * @param regions the tenant of each file
   * @param finishedBell wakes the index
   * @param defect told of what should never happen
   * @throws IOException naming the directory that can't be had, and why
   */
  SsdTier(
      SsdConfig config,
      Tenants.Regions regions,
      int slotAlignment,
      Runnable finishedBell,
      Consumer<Throwable> defect)
      throws IOException {
    int lanes = config.space().directories().size();
    slots =
        new SlotAllocator(
            regions.toArray(),
            regions.tenants(),
            config.space().fileBytes(),
            // A large tier has coarser slots: there are 2^31 numbers for them.
            SlotAllocator.granularity(config.files(), config.space().fileBytes(), slotAlignment),
            lanes);
    try {
      for (int lane = 0; lane < lanes && config.files() > 0; lane++) {
        open(config, lane, finishedBell, defect);
      }
    } catch (IOException | RuntimeException e) {
      close();
      throw e;
    }
  }

  /**
   * Refuses directories that another daemon has, before anything costly is done; takes and makes
   * nothing.
   *
   * @throws IOException naming the directory and its key
   */
  static void requireFree(SsdConfig config) throws IOException {
    if (config.files() > 0) {
      for (Path directory : config.space().directories()) {
        DirectoryLock.requireFree(directory);
      }
    }
  }

  private void open(SsdConfig config, int lane, Runnable finishedBell, Consumer<Throwable> defect)
      throws IOException {
    int lanes = config.space().directories().size();
    Path directory = config.space().directories().get(lane);
    int files = (config.files() + lanes - 1 - lane) / lanes;
    boolean rocks = config.writing().engine() == SsdEngine.ROCKSDB;
    SlotDevice device =
        keep(
            rocks
                ? new RocksDevice(
                    directory, files, config.space().fileBytes(), config.space().bytes() / lanes)
                : new FileDevice(directory, files, config.space().fileBytes()));
    isDirect &= device instanceof FileDevice direct && direct.isDirect();
    RocksLedger ledger = keep(new RocksLedger(directory));
    if (!ledger.openingReport().isEmpty()) {
      LOG.warn("{}", ledger.openingReport());
    }
    String layout =
        "slots of version "
            + SlotHeaderDescriptor.VERSION
            + ", file_bytes="
            + config.space().fileBytes()
            + ", directory "
            + lane
            + " of "
            + lanes
            + (rocks ? ", in RocksDB" : "");
    if (!ledger.layout().equals(layout)) {
      if (!ledger.layout().isEmpty()) {
        LOG.warn(
            "the SSD tier in {} was written as '{}', and is now configured as '{}': its blocks are dropped",
            directory,
            ledger.layout(),
            layout);
      }
      ledger.clear();
      ledger.setLayout(layout);
      ledger.commit(true);
    }
    if (device instanceof RocksDevice database) {
      forgetLost(directory, database, ledger);
    }
    TroubleLog troubles = new TroubleLog(LOG, "SSD tier in '" + directory + "'");
    LedgerThread lastLeg =
        new LedgerThread(
            "kvtier-ledger-" + lane,
            new LedgerLeg(ledger, config.writing().survivesPowerLoss(), device::sync, troubles),
            config.pipeline().queueDepth() + FORGETS_MAX,
            defect);
    // Closed after the pipeline, so that the pipeline's last writes are entered.
    keep(lastLeg);
    SsdEngine.Started started =
        config
            .writing()
            .engine()
            .start(
                new SsdEngine.Parts(
                    "kvtier-ssd-" + lane,
                    device,
                    config.writing().codec(),
                    lastLeg,
                    config.pipeline().threads(),
                    config.pipeline().queueDepth(),
                    new SsdListeners(finishedBell, troubles, defect)));
    if (!started.reason().isEmpty()) {
      LOG.info("SSD engine {}: {}", started.engine(), started.reason());
    }
    engine = started.engine().toString();
    pipelines.add(keep(started.pipeline()));
    ledgers.add(ledger);
  }

  /**
   * Forgets the blocks of damaged files, and logs how many they were. Damage must not prevent the
   * start.
   */
  private static void forgetLost(Path directory, RocksDevice database, Ledger ledger)
      throws IOException {
    List<Long> lost = new ArrayList<>();
    long[] kept = new long[1];
    ledger.forEach((place, _) -> {
      if (database.mayHold(place)) {
        kept[0]++;
      } else {
        lost.add(place);
      }
    });
    lost.forEach(ledger::forget);
    ledger.commit(false);
    String damage = database.takeReport();
    if (!damage.isEmpty() || !lost.isEmpty()) {
      LOG.warn(
          "the database of the SSD tier in '{}' was damaged{}: {} of its {} blocks are lost",
          directory,
          damage.isEmpty() ? "" : " (" + damage + ")",
          lost.size(),
          lost.size() + kept[0]);
    }
  }

  private <T extends AutoCloseable> T keep(T part) {
    parts.push(part);
    return part;
  }

  SlotAllocator slots() {
    return slots;
  }

  /** One pipeline for each device. */
  List<Pipeline> pipelines() {
    return List.copyOf(pipelines);
  }

  /** One ledger for each device. */
  List<Ledger> ledgers() {
    return List.copyOf(ledgers);
  }

  /** Whether the page cache is bypassed everywhere. */
  boolean isDirect() {
    return isDirect && !pipelines.isEmpty();
  }

  /** The engine that reads and writes; empty if there is no SSD tier. */
  String engine() {
    return engine;
  }

  @Override
  public void close() {
    Parts.close(parts);
  }
}
