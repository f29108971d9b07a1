package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Two sides of a link agree on a path beside it. */
final class LinkFabricTest {
  /** A fabric that notes to whom its paths connect. */
  private static final class NotedFabric implements Fabric {
    final List<Byte> connected = new ArrayList<>();
    final List<Runnable> receiving = new ArrayList<>();
    private final byte address;
    int opened;

    NotedFabric(int address) {
      this.address = (byte) address;
    }

    @Override
    public FabricPath open(Runnable bell) {
      opened++;
      return new FabricPath() {
        @Override
        public byte[] address() {
          return new byte[] {address};
        }

        @Override
        public void connect(byte[] otherAddress) {
          connected.add(otherAddress[0]);
        }

        @Override
        public void send(long tag, MemorySegment block, Runnable sent) {}

        @Override
        public void receive(long tag, MemorySegment into, Runnable received) {
          receiving.add(received);
        }

        @Override
        public void discard(Runnable released) {}

        @Override
        public int sending() {
          return 0;
        }

        @Override
        public boolean work() {
          return false;
        }

        @Override
        public void close() {}
      };
    }

    @Override
    public void close() {}
  }

  private final NotedFabric ofConnecting = new NotedFabric(1);
  private final NotedFabric ofAccepting = new NotedFabric(2);
  private final LinkFabric connecting = new LinkFabric(ofConnecting, false, () -> {});
  private final LinkFabric accepting = new LinkFabric(ofAccepting, true, () -> {});

  private static Frame address(int address) {
    return Frame.of(FrameType.FABRIC, Status.OK, 0, 0, 0)
        .with(ByteBuffer.wrap(new byte[] {(byte) address}));
  }

  @Test
  void sidesThatTrustEachOther_connectToEachOther() throws IOException {
    assertNull(connecting.trust());
    Frame offer = accepting.trust();
    assertNotNull(offer);
    Frame answer = connecting.take(offer);
    assertNotNull(answer);
    assertNull(accepting.take(answer));

    assertEquals(List.of((byte) 2), ofConnecting.connected);
    assertEquals(List.of((byte) 1), ofAccepting.connected);
    assertTrue(connecting.isConnected() && accepting.isConnected());
  }

  @Test
  void addressOfASideThatIsNotTrustedYet_isRefused_andOpensNothing() {
    assertThrows(FrameException.class, () -> connecting.take(address(9)));
    assertThrows(FrameException.class, () -> accepting.take(address(9)));
    assertEquals(0, ofConnecting.opened + ofAccepting.opened);
    assertFalse(connecting.isConnected() || accepting.isConnected());
  }

  @Test
  void secondAddress_isRefused() throws IOException {
    assertNull(connecting.trust());
    assertNotNull(connecting.take(address(2)));
    assertThrows(FrameException.class, () -> connecting.take(address(9)));
    assertEquals(List.of((byte) 2), ofConnecting.connected);
  }

  @Test
  void sideWithoutAFabric_leavesBlocksOnTheLink() throws IOException {
    LinkFabric without = new LinkFabric(null, false, () -> {});
    assertNull(without.trust());
    assertNull(without.take(address(2)));
    assertFalse(without.isConnected());
    assertEquals(0, without.tag());
  }

  @Test
  void blockThatGoesNowhere_isKnown_andForHowLong() throws IOException {
    assertNull(connecting.trust());
    assertNotNull(connecting.take(address(2)));
    connecting.receive(1, MemorySegment.ofArray(new byte[8]), () -> {}, 100);
    assertFalse(connecting.isDiscardingFor(10, 1_000), "its slot is wanted");
    connecting.discard(() -> {}, 200);
    assertFalse(connecting.isDiscardingFor(10, 209));
    assertTrue(connecting.isDiscardingFor(10, 210));
    ofConnecting.receiving.getFirst().run();
    assertFalse(connecting.isDiscardingFor(10, 1_000), "it has come");
    connecting.receive(2, null, () -> {}, 2_000);
    assertTrue(connecting.isDiscardingFor(10, 2_010), "it never had a slot");
    connecting.receive(3, MemorySegment.ofArray(new byte[8]), () -> {}, 3_000);
    assertFalse(connecting.isDiscardingFor(10, 4_000));
  }
}
