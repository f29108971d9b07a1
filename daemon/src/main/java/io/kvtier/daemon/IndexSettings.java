package io.kvtier.daemon;

import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.tiers.ssd.SlotHeaderDescriptor;
import java.nio.file.Path;
import java.util.stream.Collectors;

/** The index's settings, made from the configuration. */
final class IndexSettings {
  private IndexSettings() {}

  /**
   * The limits of the index. The gRPC server has its own sessions: one for each thread and tenant.
   */
  static Limits limits(KvtierdConfig config, Tenants tenants) {
    KvtierdConfig.LimitsConfig limits = config.limits();
    return new Limits(
        limits.sessions().max()
            + (config.network().grpc().enabled()
                ? config.network().grpc().threads() * tenants.count()
                : 0),
        limits.operations().max(),
        limits.operations().maxPerSession(),
        limits.operations().holdsMax(),
        limits.operations().holdsMaxPerSession(),
        limits.retainedShare(),
        config.network().nodes().pushedShare(),
        new Limits.Times(
            limits.times().leaseNs(),
            limits.times().leaseNsMax(),
            limits.times().retentionNsMax(),
            limits.times().reservationNs(),
            limits.times().deadlineNs(),
            limits.times().deadlineNsMax(),
            Limits.STANDSTILL_NS));
  }

  /** The SSD tier. */
  static TierParts.Lower ssd(KvtierdConfig.SsdConfig config, SsdTier tier) {
    String directories =
        config.space().directories().stream().map(Path::toString).collect(Collectors.joining(", "));
    return new TierParts.Lower(
        KnownTiers.SSD,
        new TierParts.Space(tier.slots(), SlotHeaderDescriptor.HEADER_BYTES, config.policy()),
        config.admission(),
        new TierParts.Devices(tier.pipelines(), config.pipeline().queueDepth()),
        new TierParts.Pace(config.rates().scrubBytesPerSecond(), config.rates().writeBytesPerDay()),
        new TierParts.Place(directories, tier.engine(), tier.isDirect()));
  }
}
