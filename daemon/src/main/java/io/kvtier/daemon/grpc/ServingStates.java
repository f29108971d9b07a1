package io.kvtier.daemon.grpc;

import io.kvtier.daemon.index.report.HealthReport;
import io.kvtier.protocol.v1.KvtierGrpcService;
import io.vertx.grpc.health.v1.HealthCheckResponse.ServingStatus;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The states of the services in {@code grpc.health.v1}. The daemon itself serves while its index
 * makes progress, also if the daemon is degraded: its clients then get more misses, and nothing
 * worse. A tier serves while none of its parts is in trouble. For any thread.
 */
final class ServingStates {
  /**
   * The service that serves while no part of the daemon is in trouble; NOT_SERVING means degraded.
   */
  static final String WHOLE = "kvtier.whole";

  private static final String PREFIX = "kvtier.";

  private final Map<String, Predicate<HealthReport>> services = new LinkedHashMap<>();
  private final Supplier<HealthReport> health;
  private final BooleanSupplier isLive;

  /**
   * The services of a daemon.
   *
   * @param health the index's last report about its parts
   * @param isLive whether the index makes progress
   * @param areas the tiers of the daemon and other areas with parts
   */
  ServingStates(Supplier<HealthReport> health, BooleanSupplier isLive, List<String> areas) {
    this.health = health;
    this.isLive = isLive;
    services.put("", report -> true);
    services.put(KvtierGrpcService.SERVICE_NAME.fullyQualifiedName(), report -> true);
    services.put(WHOLE, report -> !report.isDegraded());
    areas.forEach(area -> services.put(PREFIX + area, report -> report.isWell(area)));
  }

  /** The state of a service; null if there is no service with that name. */
  @Nullable ServingStatus of(String service) {
    Predicate<HealthReport> serves = services.get(service);
    return serves == null ? null : status(serves, health.get());
  }

  /** The states of all services, by name. */
  Map<String, ServingStatus> all() {
    HealthReport report = health.get();
    Map<String, ServingStatus> all = new LinkedHashMap<>();
    services.forEach((service, serves) -> all.put(service, status(serves, report)));
    return all;
  }

  private ServingStatus status(Predicate<HealthReport> serves, HealthReport report) {
    return isLive.getAsBoolean() && serves.test(report)
        ? ServingStatus.SERVING
        : ServingStatus.NOT_SERVING;
  }
}
