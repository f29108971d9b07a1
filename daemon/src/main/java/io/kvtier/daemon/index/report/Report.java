package io.kvtier.daemon.index.report;

import io.kvtier.daemon.index.core.Accounts;
import io.kvtier.policies.WhatIf;
import io.kvtier.protocol.Counter;
import io.kvtier.tiers.gpu.GpuReport;
import io.kvtier.tiers.host.NumaReport;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The daemon's state at one moment, as far as the asker may see it. The index's thread makes a
 * report; any thread may read it.
 *
 * @param health the health of all parts
 * @param work the work of the daemon since its start
 * @param clients the owners of the blocks, and the connected clients
 */
public record Report(
    Identity identity, HealthReport health, Work work, Storage storage, Clients clients) {
  /**
   * The daemon itself.
   *
   * @param drains whether new blocks are refused
   * @param node the name by which other nodes know this one; empty if it serves no other nodes
   */
  public record Identity(
      String version, long generation, long uptimeS, boolean drains, String node) {}

  /**
   * The work of the daemon since its start.
   *
   * @param drops blocks that left the last tier, by reason
   */
  public record Work(
      Map<Counter, Long> counters, Map<String, Long> drops, List<Latency> latencies) {
    public Work {
      latencies = List.copyOf(latencies);
    }
  }

  /**
   * How long operations or transfers of one kind took.
   *
   * @param quantilesNs the quantiles of {@link Quantile}, by their names; -1 where nothing was
   *     counted
   */
  public record Latency(String kind, long count, long sumNs, Map<Quantile, Long> quantilesNs) {}

  /** A quantile of latencies. */
  public enum Quantile {
    P50("p50_ns", 0.5),
    P90("p90_ns", 0.9),
    P99("p99_ns", 0.99),
    P999("p999_ns", 0.999),
    MAX("max_ns", 1);

    private final String key;
    private final double share;

    Quantile(String key, double share) {
      this.key = key;
      this.share = share;
    }

    /** The name in JSON. */
    String key() {
      return key;
    }

    /** The share of values that are at most the quantile. */
    public double share() {
      return share;
    }
  }

  /**
   * Where blocks are kept.
   *
   * @param retained the retained blocks of all tenants that the asker sees
   * @param object null where the daemon has no object tier
   * @param numa where the first tier's memory is; null where that does not matter
   * @param events the fields of the event publisher; null where events are not published
   */
  public record Storage(
      List<Tier> tiers,
      Retained retained,
      @Nullable ObjectTier object,
      List<GpuReport> gpus,
      @Nullable NumaReport numa,
      @Nullable Map<String, Object> events) {
    public Storage {
      tiers = List.copyOf(tiers);
      gpus = List.copyOf(gpus);
    }
  }

  /**
   * A resident tier.
   *
   * @param sizeClasses of the asker's tenant, those with most regions first
   * @param trouble why the tier's ledger cannot be written; empty while it can; null where the tier
   *     does not report that
   * @param lower null for the first tier
   */
  public record Tier(
      String name,
      Space space,
      String policy,
      List<WhatIf> whatIf,
      List<SizeClass> sizeClasses,
      @Nullable String trouble,
      @Nullable Lower lower) {
    public Tier {
      whatIf = List.copyOf(whatIf);
      sizeClasses = List.copyOf(sizeClasses);
    }
  }

  /** The bytes and slots of a tier. */
  public record Space(
      long bytesCapacity,
      long bytesUsed,
      long slotsTotal,
      long slotsFree,
      long slotsResident,
      long slotsInFlight) {}

  /** The slots of one size. */
  public record SizeClass(long slotBytes, int regions, long slotsFree) {}

  /** The fields that only tiers below the first have. */
  public record Lower(
      String admission,
      String directory,
      String engine,
      boolean directIo,
      long scrubBytesPerSecond,
      List<Device> devices) {
    public Lower {
      devices = List.copyOf(devices);
    }
  }

  /**
   * A device of a tier below the first.
   *
   * @param state open, fenced or given_up
   * @param cause why the device is not open; empty where no cause is known
   */
  public record Device(String state, String cause, int inFlight) {}

  /**
   * The object tier.
   *
   * @param fields texts, numbers, truths and the report of the janitor, by their names in JSON
   */
  public record ObjectTier(String admission, Map<String, Object> fields) {}

  /**
   * The owners of the blocks, and the connected clients.
   *
   * @param accounts what gets found and what engines saved, by namespace
   * @param namespaces those with most bytes first
   * @param tenants null where the daemon has no tenants
   */
  public record Clients(
      List<Accounts.Account> accounts,
      List<Namespace> namespaces,
      @Nullable List<Tenant> tenants,
      List<SessionRow> sessions) {
    public Clients {
      accounts = List.copyOf(accounts);
      namespaces = List.copyOf(namespaces);
      sessions = List.copyOf(sessions);
    }
  }

  /**
   * A namespace.
   *
   * @param blocks how many blocks are in each tier, by the tier's name
   * @param tenant null for a namespace of no tenant
   * @param errors the mean relative error of each layer of encoded blocks; empty if there is none
   */
  public record Namespace(
      int id,
      String name,
      @Nullable String tenant,
      String fingerprint,
      long blockBytes,
      Map<String, Long> blocks,
      List<Double> errors,
      Map<String, String> properties) {}

  /**
   * The usage of a tenant.
   *
   * @param tiers its part of each tier, by the tier's name
   * @param retained the blocks that it retains
   * @param counts what its gets found and what its engines saved
   */
  public record Tenant(
      String name,
      Map<String, Share> tiers,
      long blocks,
      Retained retained,
      Map<Accounts.Column, Long> counts) {}

  /** The blocks that a tenant retains, and the most bytes that it may retain. */
  public record Retained(long blocks, long bytes, long bytesMax) {}

  /** A tenant's part of a tier. */
  public record Share(long bytesUsed, long bytesCapacity) {}

  /** A connected client. */
  public record SessionRow(
      long id, int pid, int uid, String name, Holds holds, long operations, long requests) {}

  /** The holds of a client. */
  public record Holds(long leases, long reservations, long pins) {}
}
