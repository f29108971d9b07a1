package io.kvtier.daemon.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.SocketConfig;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.UnixSocket.PeerCredentials;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class PeerPolicyTest {
  private static final String NOBODY = "4294967294";
  private static final int PROCESS = (int) ProcessHandle.current().pid();
  private static final int OWN = 1000;
  private static final List<TenantConfig> TENANTS =
      List.of(
          new TenantConfig("blue", List.of("2001"), List.of("3001"), 0, 0, 1),
          new TenantConfig("green", List.of("2002"), List.of("3002"), 0, 0, 1));

  private static PeerPolicy policy(List<String> users, List<String> groups) throws IOException {
    return new PeerPolicy(OWN, new SocketConfig(Path.of("x"), users, groups, 0), TENANTS);
  }

  private static Grant grant(PeerPolicy policy, int user, int group) {
    return policy.grantOf(new PeerCredentials(PROCESS, user, group, List.of()));
  }

  @Test
  void grantOf_idsBeyond31Bits_areIdsLikeOthers() throws IOException {
    PeerPolicy policy = policy(List.of(NOBODY), List.of("4000000000"));
    assertEquals(Role.WRITE, grant(policy, -2, 7).role());
    assertEquals(Role.WRITE, grant(policy, 7, (int) 4_000_000_000L).role());
    assertEquals(Role.NONE, grant(policy, 7, 7).role());
  }

  @Test
  void grantOf_rootAndOwnUser_mayEverythingWhateverIsConfigured() throws IOException {
    PeerPolicy policy = policy(List.of("0:read", OWN + ":read"), List.of());
    assertEquals(Role.ADMIN, grant(policy, 0, 7).role());
    assertEquals(Role.ADMIN, grant(policy, OWN, 7).role());
  }

  @Test
  void grantOf_roleBehindAColon_isWhatTheUserMay() throws IOException {
    PeerPolicy policy = policy(List.of("11:read", "12:admin", "13"), List.of("21:read", "22"));
    assertEquals(Role.READ, grant(policy, 11, 22).role());
    assertEquals(Role.ADMIN, grant(policy, 12, 7).role());
    assertEquals(Role.WRITE, grant(policy, 13, 21).role());
    assertEquals(Role.READ, grant(policy, 14, 21).role());
  }

  @Test
  void grantOf_tenantsUsers_areOfTheirTenantAndMayConnect() throws IOException {
    PeerPolicy policy = policy(List.of("2002:read"), List.of());
    assertEquals(new Grant("user 2001", Role.WRITE, 1), grant(policy, 2001, 7));
    assertEquals(new Grant("user 9", Role.WRITE, 1), grant(policy, 9, 3001));
    assertEquals(new Grant("user 2002", Role.READ, 2), grant(policy, 2002, 7));
    assertEquals(Grant.NO_TENANT, grant(policy, OWN, 7).tenant());
  }

  @Test
  void policy_idBeyond32Bits_namesItAndChangesNothing() throws IOException {
    for (String wrong : List.of("4294967296", "99999999999999999999", "4294967296:read")) {
      IOException refused =
          assertThrows(IOException.class, () -> policy(List.of(wrong), List.of()), wrong);
      String message = String.valueOf(refused.getMessage());
      assertTrue(message.contains("socket.users has '" + wrong.split(":", -1)[0] + "'"), message);
    }
    PeerPolicy policy = policy(List.of("11"), List.of());
    assertThrows(IOException.class, () -> policy.change(List.of("12"), List.of("4294967296")));
    assertEquals(Role.WRITE, grant(policy, 11, 7).role());
    assertEquals(Role.NONE, grant(policy, 12, 7).role());
  }

  @Test
  void grantOf_groupsOfTwoTenants_isRefusedInWords() throws IOException {
    TenantConfig blue = new TenantConfig("blue", List.of(), List.of("3001"), 0, 0, 1);
    TenantConfig green = new TenantConfig("green", List.of("2002"), List.of("3002"), 0, 0, 1);
    PeerPolicy policy =
        new PeerPolicy(
            OWN,
            new SocketConfig(Path.of("x"), List.of("9:admin"), List.of(), 0),
            List.of(blue, green));
    PeerCredentials both = new PeerCredentials(PROCESS, 9, 3001, List.of(3002, 7));
    assertEquals(Role.NONE, policy.grantOf(both).role());
    assertTrue(
        policy.refusal(both).contains("user 9 is in groups of several tenants, blue and green"));
    assertEquals(2, policy.grantOf(new PeerCredentials(PROCESS, 9, 8, List.of(3002))).tenant());
    PeerCredentials named = new PeerCredentials(PROCESS, 2002, 3001, List.of(3002));
    assertEquals(2, policy.grantOf(named).tenant(), "its own name says it");
    assertEquals(new Grant("user " + OWN, Role.ADMIN, 0), grant(policy, OWN, 3001));
    assertTrue(
        policy(List.of(), List.of())
            .refusal(new PeerCredentials(PROCESS, 9, 7, List.of()))
            .contains("user 9 may not use this daemon"));
  }

  @Test
  void grantOf_processThatHasGone_isOfItsGroupsTenant() throws IOException {
    PeerPolicy policy = policy(List.of("9"), List.of("3002:read"));
    PeerCredentials gone = new PeerCredentials(0, 9, 7, List.of(8, 3001));
    assertEquals(new Grant("user 9", Role.WRITE, 1), policy.grantOf(gone));
    PeerCredentials other = new PeerCredentials(0, 10, 7, List.of(3002));
    assertEquals(new Grant("user 10", Role.READ, 2), policy.grantOf(other));
  }

  @Test
  void grantOf_groupsThatTheKernelDoesNotTell_isRefusedInWordsWhereTenantsAreByGroup()
      throws IOException {
    PeerPolicy policy = policy(List.of("9", "2001:read"), List.of());
    PeerCredentials unknown = new PeerCredentials(PROCESS, 9, 3001, null);
    assertEquals(Role.NONE, policy.grantOf(unknown).role());
    assertTrue(policy.refusal(unknown).contains("SO_PEERGROUPS"), policy.refusal(unknown));
    // Who is named needs no group.
    assertEquals(1, policy.grantOf(new PeerCredentials(PROCESS, 2001, 7, null)).tenant());
    assertEquals(Role.ADMIN, policy.grantOf(new PeerCredentials(PROCESS, OWN, 7, null)).role());
    TenantConfig byUser = new TenantConfig("blue", List.of("2001"), List.of(), 0, 0, 1);
    PeerPolicy byUsers =
        new PeerPolicy(
            OWN,
            new SocketConfig(Path.of("x"), List.of("9"), List.of("7:read"), 0),
            List.of(byUser));
    assertEquals(Role.WRITE, byUsers.grantOf(unknown).role());
    assertEquals(Role.READ, byUsers.grantOf(new PeerCredentials(PROCESS, 8, 7, null)).role());
  }

  @Test
  void refusal_groupsThatTheKernelDoesNotTell_doesNotAdviseToNameThem() throws IOException {
    TenantConfig byUser = new TenantConfig("blue", List.of("2001"), List.of(), 0, 0, 1);
    PeerPolicy byGroup =
        new PeerPolicy(
            OWN, new SocketConfig(Path.of("x"), List.of(), List.of("7"), 0), List.of(byUser));
    PeerCredentials unknown = new PeerCredentials(PROCESS, 9, 3001, null);
    assertEquals(Role.NONE, byGroup.grantOf(unknown).role());
    String refusal = byGroup.refusal(unknown);
    assertTrue(refusal.contains("SO_PEERGROUPS): add it to socket.users"), refusal);
    String known = byGroup.refusal(new PeerCredentials(PROCESS, 9, 3001, List.of()));
    assertTrue(known.contains("or its group to socket.groups"), known);
  }

  @Test
  void policy_sameIdTwice_isRefused() {
    IOException refused =
        assertThrows(IOException.class, () -> policy(List.of("root:read", "0:admin"), List.of()));
    assertTrue(
        String.valueOf(refused.getMessage()).contains("socket.users names user '0' twice"),
        refused::getMessage);
    List<TenantConfig> twice =
        List.of(
            new TenantConfig("blue", List.of("root"), List.of(), 0, 0, 1),
            new TenantConfig("green", List.of("0"), List.of(), 0, 0, 1));
    assertThrows(
        IOException.class,
        () -> new PeerPolicy(OWN, new SocketConfig(Path.of("x"), List.of(), List.of(), 0), twice));
  }

  @Test
  void policy_unknownRole_namesIt() {
    IOException refused =
        assertThrows(IOException.class, () -> policy(List.of("11:owner"), List.of()));
    assertTrue(String.valueOf(refused.getMessage()).contains("'11:owner'"));
  }
}
