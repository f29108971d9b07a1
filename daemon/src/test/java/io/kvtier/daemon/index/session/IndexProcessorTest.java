package io.kvtier.daemon.index.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

final class IndexProcessorTest {
  private static final int HERE = 5;
  private static final int HERE_IN_WORDS = HERE + 1;

  private final Arena arena = Arena.ofConfined();
  private final MemorySegment region = arena.allocate(DaemonRegionDescriptor.REGION_BYTES, 8);
  private int current = HERE;
  private final IndexProcessor processor = new IndexProcessor(region, () -> current);

  @AfterEach
  void free() {
    arena.close();
  }

  @Test
  void clientOnTheSameProcessor_needsIt_once() {
    processor.woken(HERE_IN_WORDS);
    assertTrue(processor.rest());
    assertFalse(processor.rest());
  }

  @Test
  void clientsElsewhere_doNotNeedIt() {
    processor.woken(HERE_IN_WORDS + 1);
    processor.woken(HERE_IN_WORDS - 1);
    assertFalse(processor.rest());
  }

  @Test
  void oneOfSeveralClients_isEnough() {
    processor.woken(HERE_IN_WORDS);
    processor.woken(HERE_IN_WORDS + 1);
    assertTrue(processor.rest());
  }

  @Test
  void clientThatDoesNotSayWhereItIs_doesNotNeedIt() {
    // Where the kernel does not say it either.
    current = -1;
    processor.woken(0);
    assertFalse(processor.rest());
  }

  @Test
  void clients_readWhereTheIndexIs() {
    assertEquals(0, published());
    assertFalse(processor.rest());
    assertEquals(HERE_IN_WORDS, published());
    current = 0;
    assertFalse(processor.rest());
    assertEquals(1, published());
  }

  private int published() {
    return Words.getIntVolatile(region, DaemonRegionDescriptor.INDEX_CPU_OFFSET);
  }
}
