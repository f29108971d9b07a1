package io.kvtier.daemon.member;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.kvtier.tiers.node.FrameException;
import io.kvtier.tiers.node.NodeAddress;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class MemberFrameTest {
  private static final Member MEMBER =
      new Member(new NodeAddress("fd00::7", 65_535), "nöde", 0x1122334455667788L);

  @Test
  void frames_haveTheseBytes() {
    assertEquals(
        "4b564d31010188776655443322" + "11ffff0700666430303a3a3705006ec3b66465",
        HexFormat.of().formatHex(new MemberFrame.Here(MEMBER).encoded()));
    assertEquals("4b564d310102", HexFormat.of().formatHex(new MemberFrame.Who().encoded()));
  }

  @Test
  void frames_areReadAsTheyWereWritten() throws FrameException {
    assertEquals(
        new MemberFrame.Here(MEMBER), MemberFrame.of(new MemberFrame.Here(MEMBER).encoded()));
    assertEquals(new MemberFrame.Who(), MemberFrame.of(new MemberFrame.Who().encoded()));
  }

  @Test
  void frameThatIsCutOffOrTooLong_isRefused() {
    byte[] whole = new MemberFrame.Here(MEMBER).encoded();
    for (int bytes = 0; bytes < whole.length; bytes++) {
      byte[] cut = Arrays.copyOf(whole, bytes);
      assertThrows(FrameException.class, () -> MemberFrame.of(cut), bytes + " bytes");
    }
    assertThrows(FrameException.class, () -> MemberFrame.of(Arrays.copyOf(whole, 1000)));
    assertThrows(
        FrameException.class, () -> MemberFrame.of(Arrays.copyOf(whole, whole.length + 1)));
  }

  @Test
  void garbage_isRefusedOrReadAsWhatItWouldBeWrittenAs() {
    SplittableRandom random = new SplittableRandom(1);
    byte[] whole = new MemberFrame.Here(MEMBER).encoded();
    for (int i = 0; i < 100_000; i++) {
      byte[] bytes = whole.clone();
      for (int flips = 1 + random.nextInt(3); flips > 0; flips--) {
        bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
      }
      try {
        assertArrayEquals(bytes, MemberFrame.of(bytes).encoded());
      } catch (FrameException e) {
        // It was refused.
      }
    }
  }

  @Test
  void hostThatIsNone_isRefused() {
    for (String host : new String[] {"a b", "a/b", "\n", "ä", ""}) {
      byte[] bytes = new MemberFrame.Here(new Member(new NodeAddress(host, 1), "", 1)).encoded();
      assertThrows(FrameException.class, () -> MemberFrame.of(bytes), host);
    }
  }
}
