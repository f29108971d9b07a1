package io.kvtier.client.internal.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Protocol;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A session by itself. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class SessionTest {
  private static final long SECOND_NS = 1_000_000_000;

  @TempDir private Path folder;

  private Connecting to() {
    return new Connecting(
        folder.resolve("fake.sock"),
        DaemonUser.of(null),
        "test",
        200,
        Protocol.RING_BYTES_MIN,
        Protocol.RING_BYTES_MIN);
  }

  private Session open() throws IOException {
    return new Session(Handshake.connect(to()), batch -> {}, 0);
  }

  @Test
  void holdsLeases_daemonKilled_nobodyWaits_no() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(to().socket())) {
      Session session = open();
      long end = System.nanoTime() + 3600 * SECOND_NS;
      assertTrue(session.lifetime().holdsLeases(end));
      assertFalse(session.lifetime().holdsLeases(System.nanoTime() - 1));
      daemon.hangUp = true;
      while (session.lifetime().holdsLeases(end)) {
        assertFalse(Thread.interrupted(), "leases of nobody");
      }
      // It takes a look to know.
      assertTrue(session.isAlive() && session.lifetime().seemsToHoldLeases(end));
      session.end("over");
      session.lifetime().endUse();
    }
  }

  /** A slab that the daemon gives: a busy machine may need more than one connection timeout. */
  private static MemorySegment slab(Session session, boolean isWritable) throws IOException {
    for (int attempt = 1; ; attempt++) {
      try {
        return session.wires().slabs().get(0, isWritable);
      } catch (IOException e) {
        if (attempt == 50) {
          throw e;
        }
      }
    }
  }

  @Test
  void slab_answerToAnEarlierRequestComesLate_isNotTakenForThisOne() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(to().socket())) {
      Session session = open();
      daemon.slabsToHold.set(2);
      for (int i = 0; i < 2; i++) {
        assertThrows(IOException.class, () -> session.wires().slabs().get(0, false));
      }
      MemorySegment slab = slab(session, true);
      assertEquals(FakeDaemon.SLAB_BYTES, slab.byteSize());
      assertFalse(slab.isReadOnly());
      assertTrue(slab(session, false).isReadOnly());
      session.end("over");
      session.lifetime().endUse();
    }
  }

  /** As where this process may open no more files for a moment. */
  @Test
  void slab_answerCantBeTaken_nextOneCounts() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(to().socket())) {
      Session session = open();
      daemon.slabsToSpoil.set(1);
      String words =
          String.valueOf(
              assertThrows(IOException.class, () -> session.wires().slabs().get(0, false))
                  .getMessage());
      assertTrue(words.contains("ulimit"), words);
      assertEquals(FakeDaemon.SLAB_BYTES, slab(session, false).byteSize());
      session.end("over");
      session.lifetime().endUse();
    }
  }
}
