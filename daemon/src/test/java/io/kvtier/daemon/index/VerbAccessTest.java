package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.daemon.access.Grant;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Which verb which role may, over the local socket. */
class VerbAccessTest {
  private static final Set<Verb> READS =
      EnumSet.of(
          Verb.PING,
          Verb.REGISTER,
          Verb.UNREGISTER,
          Verb.LOOKUP,
          Verb.LOOKUP_GROUPS,
          Verb.ACQUIRE,
          Verb.RELEASE,
          Verb.PREFETCH,
          Verb.CANCEL,
          Verb.STATS,
          Verb.REGISTER_REGION,
          Verb.UNREGISTER_REGION,
          Verb.ONBOARD,
          Verb.REPORT_LOADS);
  private static final Set<Verb> ADMINS = EnumSet.of(Verb.ADMIN);

  private static boolean mayCall(Role role, Verb verb) {
    return switch (role) {
      case NONE -> false;
      case READ -> READS.contains(verb);
      case WRITE -> !ADMINS.contains(verb);
      case ADMIN -> true;
    };
  }

  @Test
  void everyVerb_everyRole_isRefusedOrNotAsTheTableSays() throws Exception {
    List<String> wrong = new ArrayList<>();
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      for (Role role : Role.values()) {
        IndexHarness.Client client = harness.open(1 << 20, new Grant("x", role, 0));
        for (Verb verb : Verb.values()) {
          client.sendFlags(verb, 0, 8);
          boolean refused = client.work().status() == Status.DENIED;
          if (refused == mayCall(role, verb)) {
            wrong.add(role + " " + verb + (refused ? " was refused" : " was let in"));
          }
        }
        harness.close(client);
      }
    }
    assertEquals(List.of(), wrong);
  }
}
