package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The numbers by which remote callers know namespaces. */
final class NamespacesTest {
  private final Namespaces namespaces = new Namespaces();

  private static long add(Namespaces to, int id) {
    return to.add(id, "n" + id, 1000, null, IndexRequest.register(new byte[0], 1000, false))
        .number();
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
    forget(number);
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

  private final List<Integer> forgotten = new ArrayList<>();

  private void forget(long number) {
    namespaces.forgetUnused(number, namespace -> forgotten.add(namespace.id()));
  }

  @Test
  void forgetUnused_whileSomebodyUsesIt_keepsIt() throws RefusedException {
    long number = add(1);
    namespaces.used(number);
    forget(number);
    assertEquals(1, namespaces.get(number).id());
    namespaces.unused(number);
    forget(number);
    assertEquals(List.of(1), forgotten);
    assertThrows(RefusedException.class, () -> namespaces.get(number));
  }

  @Test
  void forgetUnused_whileItsNameIsRegistered_forgetsItOnceAfterTheLastAnswer()
      throws RefusedException {
    long number = add(1);
    namespaces.registering("n1");
    namespaces.registering("n1");
    forget(number);
    forget(number);
    namespaces.registered("n1");
    assertEquals(1, namespaces.get(number).id());
    assertEquals(List.of(), forgotten);
    namespaces.registered("n1");
    assertEquals(List.of(1), forgotten);
    assertThrows(RefusedException.class, () -> namespaces.get(number));
  }

  @Test
  void forgetUnused_whenTheRegistrationGaveItToAnotherConnection_keepsIt() throws RefusedException {
    long number = add(1);
    namespaces.registering("n1");
    forget(number);
    namespaces.used(number);
    namespaces.registered("n1");
    assertEquals(1, namespaces.get(number).id());
    assertEquals(List.of(), forgotten);
  }

  @Test
  void forgetUnused_whileAnotherNameIsRegistered_doesNotWait() {
    long number = add(1);
    namespaces.registering("n2");
    forget(number);
    assertEquals(List.of(1), forgotten);
  }

  @Test
  void registrationOfALoop_endsAfterTheRegistrationsOfTheNameUnlessItIsKnownAgain()
      throws RefusedException {
    long number = add(1);
    Namespaces.Namespace namespace = namespaces.get(number);
    forget(number);
    List<String> again = new ArrayList<>();
    assertTrue(namespaces.mayEnd(namespace, "loop", () -> again.add("not needed")));
    namespaces.registering("n1");
    assertFalse(namespaces.mayEnd(namespace, "loop", () -> again.add("one")));
    assertFalse(namespaces.mayEnd(namespace, "other loop", () -> again.add("other")));
    namespaces.registered("n1");
    assertEquals(List.of("one", "other"), again);
    add(1);
    assertFalse(namespaces.mayEnd(namespace, "loop", () -> again.add("not needed")));
  }
}
