package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Iterator;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The numbers by which remote callers know namespaces. */
final class NamespacesTest {
  private final Namespaces namespaces = new Namespaces();

  private static long add(Namespaces to, int id) {
    return to.add(id, 1000, IndexRequest.register(new byte[0], 1000, false)).number();
  }

  private long add(int id) {
    return add(namespaces, id);
  }

  @Test
  void number_ofANamespaceThatIsKnown_staysTheSame() {
    long number = add(1);
    assertEquals(number, add(1));
    assertNotEquals(number, add(2));
    assertTrue(number > 0);
  }

  @Test
  void number_ofAnEarlierStart_namesNothingWhateverIsRegistered() {
    long number = add(1);
    Namespaces afterARestart = new Namespaces();
    assertNotEquals(number, add(afterARestart, 1));
    assertThrows(RefusedException.class, () -> afterARestart.get(number));
  }

  @Test
  void number_ofAForgottenNamespace_namesNothingAlsoWhenItIsRegisteredAgain() {
    long number = add(1);
    assertNotNull(namespaces.forget(number));
    assertNotEquals(number, add(1));
    assertThrows(RefusedException.class, () -> namespaces.get(number));
  }

  @Test
  void number_thatAnotherHas_isNotGivenTwice() throws RefusedException {
    Iterator<Long> drawn = List.of(0L, Long.MIN_VALUE, 7L, 7L, 8L).iterator();
    Namespaces unlucky = new Namespaces(drawn::next);
    assertEquals(7, add(unlucky, 1));
    assertEquals(8, add(unlucky, 2));
    assertEquals(1, unlucky.get(7).id());
    assertEquals(2, unlucky.get(8).id());
  }

  @Test
  void forget_whileSomebodyUsesOrRegisters_keepsIt() throws RefusedException {
    long number = add(1);
    Namespaces.Namespace namespace = namespaces.get(number);
    namespaces.used(number);
    assertNull(namespaces.forget(number));
    namespaces.unused(number);
    namespaces.registering();
    assertNull(namespaces.forget(number));
    namespaces.registered();
    assertNotNull(namespaces.forget(number));
    assertTrue(namespaces.isForgotten(namespace));
    assertThrows(RefusedException.class, () -> namespaces.get(number));
    add(1);
    assertFalse(namespaces.isForgotten(namespace));
  }
}
