package io.kvtier.daemon.grpc;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** The numbers by which remote callers know namespaces. */
final class NamespacesTest {
  private final Namespaces namespaces = new Namespaces("blue");

  private static int add(Namespaces to, int id, String text, int blockBytes) {
    byte[] utf8 = text.getBytes(UTF_8);
    return to.add(id, utf8, blockBytes, IndexRequest.register(utf8, blockBytes)).number();
  }

  private int add(int id, String text, int blockBytes) {
    return add(namespaces, id, text, blockBytes);
  }

  @Test
  void number_followsFromWhatWasRegisteredAndNotFromTheId() {
    int number = add(1, "name=a", 1000);
    assertEquals(number, add(1, "name=a", 1000));
    assertEquals(number, add(new Namespaces("blue"), 2, "name=a", 1000));
    assertNotEquals(number, add(2, "name=b", 1000));
    assertNotEquals(number, add(3, "name=a", 1001));
    assertNotEquals(number, add(new Namespaces("green"), 1, "name=a", 1000));
  }

  @Test
  void number_thatAnotherHas_isNotGivenTwice() throws RefusedException {
    int number = add(1, "name=a", 1000);
    int next = add(2, "name=a", 1000); // as if another text came to the same number
    assertEquals(number + 1, next);
    assertEquals(1, namespaces.get(number).id());
    assertEquals(2, namespaces.get(next).id());
  }

  @Test
  void forget_whileSomebodyUsesOrRegisters_keepsIt() {
    int number = add(1, "name=a", 1000);
    namespaces.used(number);
    assertFalse(namespaces.forget(number));
    namespaces.unused(number);
    namespaces.registering();
    assertFalse(namespaces.forget(number));
    namespaces.registered();
    assertTrue(namespaces.forget(number));
    assertTrue(namespaces.isForgotten(number));
    assertThrows(RefusedException.class, () -> namespaces.get(number));
  }
}
