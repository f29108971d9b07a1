package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Names that are no text: taken for some, two of them would be one. */
final class NamesTest {
  private static byte[] bytes(String latin1) {
    return latin1.getBytes(StandardCharsets.ISO_8859_1);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "name=a\u00ff", // no UTF-8 begins so
        "name=a\u00c3", // cut in a character
        "name=a\u00ed\u00a0\u0080", // half of a surrogate pair
        "name=a\u00c0\u0080", // a longer form of another character
        "name=a\nmodel=\u00fe",
        "model\u00fe=m\nname=a",
      })
  void registration_thatIsNotUtf8_isRefused(String latin1) throws Exception {
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      IndexHarness.Client client = harness.open();

      client.send(Verb.REGISTER, IndexHarness.SLOT_BYTES, bytes(latin1));

      assertEquals(Status.INVALID_ARGUMENT, client.work().status());
      assertEquals(Status.OK, client.endReason());
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = Verb.class,
      names = {"REGISTER_REGION", "ADMIN"})
  void text_thatIsNotUtf8_isRefused(Verb verb) throws Exception {
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      IndexHarness.Client client = harness.open();
      client.register();

      client.send(verb, 0, bytes("device=\u00ff"));

      assertEquals(Status.INVALID_ARGUMENT, client.work().status());
    }
  }

  @Test
  void names_inAnyScript_areTaken() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      IndexHarness.Client client = harness.open();

      assertEquals(Status.OK, client.registerAs("модель-模型-🦙", IndexHarness.SLOT_BYTES).status());
    }
  }
}
