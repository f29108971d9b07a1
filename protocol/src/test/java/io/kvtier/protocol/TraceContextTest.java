package io.kvtier.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TraceContextTest {
  private static final String TEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

  @Test
  void parse_ofW3csExample_readsAllOfIt() {
    TraceContext context = TraceContext.parse(TEXT);
    assertNotNull(context);
    assertEquals(0x4bf92f3577b34da6L, context.traceHigh());
    assertEquals(0xa3ce929d0e0e4736L, context.traceLow());
    assertEquals(0x00f067aa0ba902b7L, context.spanId());
    assertTrue(context.isSampled());
    assertEquals("4bf92f3577b34da6a3ce929d0e0e4736", context.traceId());
    assertEquals(TEXT, context.toString());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "00000000000000000000000000000001",
        "00000000000000010000000000000000",
        "80000000000000000000000000000001"
      })
  void parse_ofATraceIdWithFewBits_isOne(String id) {
    TraceContext context = TraceContext.parse("00-" + id + "-00f067aa0ba902b7-01");
    assertNotNull(context);
    assertEquals(id, context.traceId());
  }

  @Test
  void parse_ofAVersionToCome_readsWhatThisOneKnows() {
    TraceContext context = TraceContext.parse("cc" + TEXT.substring(2, 53) + "02-what-comes-then");
    assertNotNull(context);
    assertEquals("4bf92f3577b34da6a3ce929d0e0e4736", context.traceId());
    assertFalse(context.isSampled());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "00 4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more"
      })
  void parse_ofWhatIsNone_isNull(String text) {
    assertNull(TraceContext.parse(text));
  }

  @Test
  void parse_ofNothing_isNull() {
    assertNull(TraceContext.parse(null));
  }
}
