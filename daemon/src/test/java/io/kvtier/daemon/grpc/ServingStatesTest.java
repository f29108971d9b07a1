package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.kvtier.daemon.index.report.HealthReport;
import io.vertx.grpc.health.v1.HealthCheckResponse.ServingStatus;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** Which services serve while parts of the daemon are in trouble. */
final class ServingStatesTest {
  private HealthReport report = HealthReport.WELL;
  private final AtomicBoolean isLive = new AtomicBoolean(true);
  private final ServingStates states =
      new ServingStates(() -> report, isLive::get, List.of("puts", "host", "ssd"));

  @Test
  void of_daemonThatIsWell_everythingServes() {
    states.all().forEach((service, status) -> assertEquals(ServingStatus.SERVING, status, service));
    assertNull(states.of("kvtier.object"), "there is no such tier");
  }

  @Test
  void of_deviceInTrouble_itsTierAndTheWholeDoNotServe_theDaemonDoes() {
    report = new HealthReport(List.of(new HealthReport.Trouble("ssd/0", "full", "free space")));
    assertEquals(ServingStatus.NOT_SERVING, states.of("kvtier.ssd"));
    assertEquals(ServingStatus.NOT_SERVING, states.of(ServingStates.WHOLE));
    assertEquals(ServingStatus.SERVING, states.of("kvtier.host"));
    assertEquals(ServingStatus.SERVING, states.of(""));
    assertEquals(ServingStatus.SERVING, states.of("kvtier.v1.Kvtier"));
  }

  @Test
  void of_indexThatHangs_nothingServes() {
    isLive.set(false);
    states
        .all()
        .forEach((service, status) -> assertEquals(ServingStatus.NOT_SERVING, status, service));
  }
}
