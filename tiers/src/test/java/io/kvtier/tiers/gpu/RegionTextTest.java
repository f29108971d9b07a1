package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.BlockOrder;
import io.kvtier.layout.KvLayout;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
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
        assertThrows(IllegalArgumentException.class, () -> RegionText.parse(text, _ -> null))
            .getMessage());
  }

  @Test
  void parse_goodText_isTheRegion() {
    DeviceRegionSpec spec = RegionText.parse(GOOD, _ -> null);
    assertEquals("GPU-0", spec.device());
    assertEquals(2 * 2 * 4 * 2 * 16 * 2, spec.layout().blockBytes());
    assertEquals(List.of(IpcHandle.parse(OTHER)), spec.events());
    assertEquals(256, spec.tensors().get(0).offset());
    assertEquals(IpcHandle.parse(OTHER), spec.tensors().get(1).memory());
    assertEquals(BlockOrder.LCND, spec.layout().order());
  }

  @Test
  void parse_keysAndValuesApart_hasTheFormOfTensorsWithBoth() {
    String apart =
        GOOD.replace("order=LCND", "order=CLND")
            .replace(
                "part=kv:CBNHD:2,8,4,2,16:1024,128,32,16,1:2",
                "part=k:BNHD:8,4,2,16:128,32,16,1:2\npart=v:BNHD:8,4,2,16:128,32,16,1:2")
            .replace("tensor=1+0", "tensor=1+0\ntensor=0+4096\ntensor=1+4096");
    KvLayout layout = RegionText.parse(apart, _ -> null).layout();
    KvLayout both = RegionText.parse(GOOD.replace("order=LCND", "order=CLND"), _ -> null).layout();
    assertEquals(4, layout.tensorCount());
    assertEquals(both.blockForm(), layout.blockForm());
    assertEquals(both.blockBytes(), layout.blockBytes());
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
        "allocation=fedc | allocation=passed:0\\nallocation=fedc | expected"
            + " passed:FIRST+COUNT:BYTES",
        "allocation=fedc | allocation=passed:0+1:x\\nallocation=fedc | bytes of what was passed is"
            + " 'x'",
        "allocation=fedc | allocation=passed:0+0:8\\nallocation=fedc | expected sizes above 0",
        "allocation=fedc | allocation=passed:-1+1:8\\nallocation=fedc | expected sizes above 0",
        "allocation=fedc | allocation=passed:0+16385:8\\nallocation=fedc | at most 16384 pieces",
        "allocation=fedc | allocation=passed:2147483647+2:8\\nallocation=fedc | was not passed",
        "allocation=fedc | allocation=passed:7+1:8\\nallocation=fedc | number 7 was not passed",
      })
  void parse_badLine_namesIt(String good, String bad, String reason) {
    String refused = refusal(GOOD.replace(good, bad.replace("\\n", "\n")));
    assertTrue(refused.contains(reason), refused);
  }

  private final Map<Integer, Descriptor> passed = new HashMap<>();

  private List<Descriptor> pass(int count) throws IOException {
    List<Descriptor> all = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      Descriptor descriptor = SharedMemory.create("piece", SharedMemory.PAGE_BYTES);
      passed.put(i, descriptor);
      all.add(descriptor);
    }
    return all;
  }

  @Test
  void parse_memoryThatWasPassed_isItsPieces() throws IOException {
    List<Descriptor> all = pass(4);
    String text = GOOD.replace("allocation=" + OTHER, "allocation=passed:0+3:4096,3+1:8192");
    try (DeviceRegionSpec spec = RegionText.parse(text, passed::remove)) {
      PassedMemory memory = assertInstanceOf(PassedMemory.class, spec.tensors().get(1).memory());
      assertEquals(all, memory.pieces().stream().map(PassedMemory.Piece::descriptor).toList());
      assertEquals(3 * 4096 + 8192, memory.bytes());
      assertEquals(Map.of(), passed);
    }
    assertTrue(all.stream().allMatch(descriptor -> descriptor.number() == -1));
  }

  @Test
  void parse_refusedAfterMemoryWasPassed_leavesNothingOpen() throws IOException {
    List<Descriptor> all = pass(4);
    String twice =
        GOOD.replace(
            "allocation=" + OTHER, "allocation=passed:0+2:4096\nallocation=passed:2+2:8,1+1:8");
    assertTrue(
        assertThrows(IllegalArgumentException.class, () -> RegionText.parse(twice, passed::remove))
            .toString()
            .contains("number 1 was not passed, or used"));
    assertTrue(all.stream().allMatch(descriptor -> descriptor.number() == -1));
    List<Descriptor> more = pass(1);
    String huge = GOOD.replace("allocation=" + OTHER, "allocation=passed:0+1:" + Long.MAX_VALUE);
    String layers = huge.replace("layers=2", "layers=99999999999");
    assertThrows(IllegalArgumentException.class, () -> RegionText.parse(layers, passed::remove));
    assertTrue(more.stream().allMatch(descriptor -> descriptor.number() == -1));
  }

  @Test
  void parse_tooMany_isRefused() {
    assertTrue(
        refusal(GOOD + ("event=" + HANDLE + "\n").repeat(64)).contains("more than 64 events"));
    assertTrue(refusal(GOOD + "tensor=0+0\n".repeat(1023)).contains("more than 1024 tensors"));
  }
}
