package io.kvtier.daemon.member;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.TestCertificates;
import io.kvtier.tiers.node.NodeAddress;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Members with mutual TLS keep the contract, and strangers without a certificate stay out. */
class TlsMembershipTest extends JGroupsMembershipTest {
  @TempDir static Path folder;

  private static Supplier<SSLContext> ours;
  private static Supplier<SSLContext> others;
  private static Supplier<SSLContext> trusting;

  @SuppressWarnings("NullAway.Init") // makeCertificates() comes first
  TlsMembershipTest() {}

  @BeforeAll
  static void makeCertificates() throws Exception {
    TestCertificates mine = TestCertificates.withNode(folder.resolve("ours"));
    TestCertificates foreign = TestCertificates.withNode(folder.resolve("others"));
    ours = mine.ofNode(mine);
    others = foreign.ofNode(foreign);
    trusting = foreign.ofNode(mine);
  }

  @Override
  @Nullable Supplier<SSLContext> tls(Member self) {
    return switch (self.name()) {
      case "foreign" -> others;
      case "trusting" -> trusting;
      case "plain" -> null;
      default -> ours;
    };
  }

  private static Member member(int number, String name) {
    return new Member(new NodeAddress("10.0.0." + number, 7076), name, number);
  }

  @Test
  void whoeverHasNoCertificateOfTheAuthority_isRefused_andCounted() throws Exception {
    Node first = new Node(member(1, "first"));
    Node second = new Node(member(2, "second"));
    await("both know each other", () -> first.knows(second.self) && second.knows(first.self));
    for (String name : List.of("foreign", "trusting", "plain")) {
      int before = refused();
      Node stranger = new Node(member(3, name));
      await(name + " is refused", () -> refused() > before);
      // Long enough for one who is let in.
      Thread.sleep(4000);
      assertTrue(first.knows(second.self), name);
      assertTrue(second.knows(first.self), name);
      assertTrue(stranger.knows(), name);
      stranger.close();
    }
    assertEquals(List.of(), first.defects());
  }
}
