package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.v1.StatusCode;
import io.kvtier.protocol.v1.Tier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The enums of the proto file against the tables of the local protocol. */
final class WireTest {
  @ParameterizedTest
  @EnumSource(Status.class)
  void status_hasItsNumberAndNameOnTheWire(Status status) {
    StatusCode code = StatusCode.forNumber(status.code());

    assertNotNull(code);
    assertEquals("STATUS_" + status.name(), code.name());
    assertEquals(code, Wire.status(status));
  }

  @ParameterizedTest
  @EnumSource(TierId.class)
  void tier_hasItsNumberAndNameOnTheWire(TierId tier) {
    Tier wire = Tier.forNumber(tier.code());

    assertNotNull(wire);
    assertEquals("TIER_" + tier.name(), wire.name());
    assertEquals(wire, Wire.tier(tier));
  }

  @Test
  void enums_haveNothingMoreThanTheTables() {
    // One more each: UNRECOGNIZED.
    assertEquals(Status.values().length + 1, StatusCode.values().length);
    assertEquals(TierId.values().length + 1, Tier.values().length);
    assertNotEquals(Status.INTERNAL, Status.of(Status.values().length - 1));
  }
}
