package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * What an engine's process sends of its tensors is read, or refused with the line that is wrong.
 */
final class RegionTextTest {
  private static final String HANDLE = "0123456789abcdef".repeat(8);
  private static final String OTHER = "fedcba9876543210".repeat(8);
  private static final String GOOD =
      """
      device=GPU-0
      layers=2
      blocks=8
      block_tokens=4
      order=LCND
      part=kv:CBNHD:2,8,4,2,16:1024,128,32,16,1:2
      allocation=%s
      allocation=%s
      tensor=0+256
      tensor=1+0
      event=%s
      """
          .formatted(HANDLE, OTHER, OTHER);

  private static String refusal(String text) {
    return String.valueOf(
        assertThrows(IllegalArgumentException.class, () -> RegionText.parse(text)).getMessage());
  }

  @Test
  void parse_goodText_isTheRegion() {
    DeviceRegionSpec spec = RegionText.parse(GOOD);
    assertEquals("GPU-0", spec.device());
    assertEquals(2 * 2 * 4 * 2 * 16 * 2, spec.layout().blockBytes());
    assertEquals(List.of(IpcHandle.parse(OTHER)), spec.events());
    assertEquals(256, spec.tensors().get(0).offset());
    assertEquals(IpcHandle.parse(OTHER), spec.tensors().get(1).handle());
    assertEquals(BlockOrder.LCND, spec.layout().order());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "device=GPU-0 | device=GPU-0\\ndevice=GPU-1 | stands there twice",
        "device=GPU-0 | colour=red | expected device, layers",
        "device=GPU-0 | device | expected device, layers",
        "device=GPU-0 | '' | without 'device'",
        "layers=2 | layers=two | layers is 'two'",
        "layers=2 | layers=99999999999 | beyond 64 bits",
        "layers=2 | layers=513 | at most 512",
        "blocks=8 | blocks=-8 | -8 blocks",
        "order=LCND | order=XCND | unknown letter 'X'",
        "tensor=0+256 | tensor=2+256 | there are 2 allocations",
        "tensor=0+256 | tensor=0-256 | expected ALLOCATION+OFFSET",
        "tensor=0+256 | tensor=0+far | offset of a tensor is 'far'",
        "part=kv:CBNHD | part=CBNHD | expected NAME:AXES",
        "2,8,4,2,16: | 2,8,4,2,x: | an extent is 'x'",
        "event= | event=00 | hexadecimal digits",
      })
  void parse_badLine_namesIt(String good, String bad, String reason) {
    String refused = refusal(GOOD.replace(good, bad.replace("\\n", "\n")));
    assertTrue(refused.contains(reason), refused);
  }

  @Test
  void parse_tooMany_isRefused() {
    assertTrue(
        refusal(GOOD + ("event=" + HANDLE + "\n").repeat(64)).contains("more than 64 events"));
    assertTrue(refusal(GOOD + "tensor=0+0\n".repeat(1023)).contains("more than 1024 tensors"));
  }
}
