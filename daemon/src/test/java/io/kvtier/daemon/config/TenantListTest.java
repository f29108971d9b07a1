package io.kvtier.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class TenantListTest {
  private static final TenantList.Space SPACE =
      new TenantList.Space(1L << 40, 4 << 20, 1L << 40, 4 << 20);

  private static String refusal(String... items) {
    return String.valueOf(
        assertThrows(IllegalArgumentException.class, () -> TenantList.parse(List.of(items), SPACE))
            .getMessage());
  }

  @Test
  void parse_right_isWhatItSays() {
    assertEquals(
        8 << 20,
        TenantList.parse(List.of("name=blue host_bytes=8MiB"), SPACE).getFirst().hostBytes());
  }

  @Test
  void parse_spaceBeforeAUnit_isTakenAsInOtherSizes() {
    var tenant =
        TenantList.parse(List.of("name=blue host_bytes=8 MiB users=ann ssd_bytes=4 MiB"), SPACE)
            .getFirst();
    assertEquals(8 << 20, tenant.hostBytes());
    assertEquals(4 << 20, tenant.ssdBytes());
    assertEquals(List.of("ann"), tenant.users());
    assertTrue(refusal("name=blue users=ann bob").contains("not 'bob'"));
  }

  @Test
  void parse_keyTwiceInAnItem_isRefused() {
    assertTrue(
        refusal("name=blue host_bytes=4MiB host_bytes=8MiB")
            .contains("'host_bytes' is there twice"));
  }

  @Test
  void parse_sumBeyondALong_isRefused() {
    String half = " host_bytes=4194304TiB";
    assertTrue(
        refusal("name=a" + half, "name=b" + half).contains("all host_bytes together"),
        refusal("name=a" + half, "name=b" + half));
  }
}
