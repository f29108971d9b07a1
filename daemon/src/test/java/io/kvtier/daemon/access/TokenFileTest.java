package io.kvtier.daemon.access;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.access.Token;
import io.kvtier.protocol.access.TokenLine;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TokenFileTest {
  private static final SecureRandom RANDOM = new SecureRandom();
  private static final Instant NOON = Instant.parse("2026-06-01T12:00:00Z");
  private static final List<String> TENANTS = List.of("", "blue", "green");

  @TempDir private Path folder;
  private Path file;
  private Instant now = NOON;
  private long clockNs;

  @BeforeEach
  void chooseFile() {
    file = folder.resolve("tokens");
  }

  private static String line(Token token, Role role, String tenant, @Nullable Instant expires) {
    return TokenLine.of(token, "somebody", role, tenant, expires, RANDOM).text();
  }

  private TokenFile open(String... lines) throws IOException {
    Files.write(file, List.of(lines));
    return new TokenFile(file, TENANTS, () -> now, () -> clockNs);
  }

  private void look() {
    clockNs += 2_000_000_000L;
  }

  @Test
  void open_fileThatTheUserMayNotRead_saysWhoIsToHaveIt() throws IOException {
    assumeFalse(System.getProperty("user.name").equals("root"), "root may read everything");
    Files.createFile(
        file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("---------")));
    IOException e =
        assertThrows(
            IOException.class, () -> new TokenFile(file, TENANTS, () -> now, () -> clockNs));
    assertTrue(String.valueOf(e.getMessage()).contains("can't be read by user"), e.getMessage());
  }

  @Test
  void grantOf_severalTokens_eachIsWhatItsLineSays() throws IOException {
    Token reader = Token.make(RANDOM);
    Token admin = Token.make(RANDOM);
    TokenFile tokens =
        open(
            "# people",
            line(reader, Role.READ, "green", null),
            "",
            line(admin, Role.ADMIN, "", null));
    assertEquals(new Grant("somebody", Role.READ, 2), tokens.grantOf(reader.secretText()));
    assertEquals(new Grant("somebody", Role.ADMIN, 0), tokens.grantOf(admin.secretText()));
  }

  @Test
  void grantOf_anythingElse_isNobody() throws IOException {
    Token token = Token.make(RANDOM);
    TokenFile tokens = open(line(token, Role.READ, "", null));
    String text = token.secretText();
    char last = text.charAt(text.length() - 1);
    // The right id with another secret, as whoever has seen the file could try.
    String other = text.substring(0, text.length() - 1) + (last == 'A' ? 'Q' : 'A');
    for (String wrong : List.of("", "kvt_", other, text + "x", Token.make(RANDOM).secretText())) {
      assertNull(tokens.grantOf(wrong), wrong);
    }
    assertFalse(token.toString().contains(text.substring(17)));
  }

  @Test
  void grantOf_expired_isNobodyFromThenOn() throws IOException {
    Token token = Token.make(RANDOM);
    TokenFile tokens = open(line(token, Role.READ, "", NOON.plusSeconds(60)));
    assertNotNull(tokens.grantOf(token.secretText()));
    now = NOON.plusSeconds(60);
    assertNull(tokens.grantOf(token.secretText()));
  }

  @Test
  void grantOf_fileChanged_isReadAgain() throws IOException {
    Token before = Token.make(RANDOM);
    Token after = Token.make(RANDOM);
    TokenFile tokens = open(line(before, Role.READ, "", null));
    Files.writeString(file, line(after, Role.WRITE, "blue", null) + "\n#\n");
    look();
    assertNull(tokens.grantOf(before.secretText()));
    assertNotNull(tokens.grantOf(after.secretText()));
  }

  @Test
  void grantOf_fileBroken_tokensBeforeStayUntilItIsMended() throws IOException {
    Token before = Token.make(RANDOM);
    TokenFile tokens = open(line(before, Role.READ, "", null));
    Files.writeString(file, "id=nonsense");
    look();
    assertNotNull(tokens.grantOf(before.secretText()));
    Files.delete(file);
    look();
    assertNotNull(tokens.grantOf(before.secretText()));
    Files.writeString(file, "# nobody\n");
    look();
    assertNull(tokens.grantOf(before.secretText()));
  }

  @Test
  void grantOf_permissionsMended_isReadThoughNothingElseChanged() throws IOException {
    Token before = Token.make(RANDOM);
    Token after = Token.make(RANDOM);
    TokenFile tokens = open(line(before, Role.READ, "", null));
    Files.writeString(file, line(after, Role.WRITE, "", null) + "\n#\n");
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-rw-rw-"));
    look();
    assertNotNull(tokens.grantOf(before.secretText()));
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
    look();
    assertNull(tokens.grantOf(before.secretText()));
    assertNotNull(tokens.grantOf(after.secretText()));
  }

  @Test
  void open_wrongLine_namesItAndTellsNoHash() {
    Token token = Token.make(RANDOM);
    String right = line(token, Role.READ, "", null);
    String hash = right.substring(right.indexOf("sha256=") + 7);
    for (String wrong :
        List.of(
            right.replace("role=read", "role=owner"),
            right.replace("role=read", "role=none"),
            right + " color=red",
            right.replace("expires=never", "expires=soon"),
            right.replace(hash, hash.substring(2)),
            line(token, Role.READ, "red", null))) {
      IOException refused = assertThrows(IOException.class, () -> open("#", wrong), wrong);
      String message = String.valueOf(refused.getMessage());
      assertTrue(message.contains("line 2"), message);
      assertFalse(message.contains(hash.substring(40)), message);
    }
  }

  @Test
  void open_secretInTheWrongPlace_isNotToldInAnyPart() {
    Token token = Token.make(RANDOM);
    String secret = token.secretText();
    String right = line(token, Role.READ, "blue", null);
    for (String wrong :
        List.of(
            right.replace("id=" + token.id(), "id=" + secret),
            right.replace("name=somebody", "name=" + secret + "!"),
            right.replace("role=read", "role=" + secret),
            right.replace("tenant=blue", "tenant=" + secret + "!"),
            right.replace("tenant=blue", "tenant=" + secret),
            right.replace("expires=never", "expires=" + secret),
            right + " " + secret + "=x",
            secret)) {
      IOException refused = assertThrows(IOException.class, () -> open(wrong), wrong);
      for (Throwable e = refused; e != null; e = e.getCause()) {
        assertFalse(String.valueOf(e.getMessage()).contains(secret.substring(17)), e::toString);
      }
    }
  }

  @Test
  void open_writableByAll_isRefused() throws IOException {
    Files.createFile(file);
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-rw-rw-"));
    IOException refused = assertThrows(IOException.class, this::open);
    assertTrue(String.valueOf(refused.getMessage()).contains("chmod"));
  }
}
