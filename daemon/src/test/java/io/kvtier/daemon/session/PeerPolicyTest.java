package io.kvtier.daemon.session;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.linux.UnixSocket.PeerCredentials;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

class PeerPolicyTest {
  private static final String NOBODY = "4294967294";

  @Test
  void allows_idsBeyond31Bits_areIdsLikeOthers() throws IOException {
    PeerPolicy policy = new PeerPolicy(1000, List.of(NOBODY), List.of("4000000000"));
    int process = (int) ProcessHandle.current().pid();
    assertTrue(policy.allows(new PeerCredentials(process, -2, 7)));
    assertTrue(policy.allows(new PeerCredentials(process, 7, (int) 4_000_000_000L)));
    assertFalse(policy.allows(new PeerCredentials(process, 7, 7)));
  }
}
