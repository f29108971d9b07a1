package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonObject;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.access.Token;
import io.kvtier.protocol.access.TokenLine;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TokenCommandTest {
  @TempDir private Path folder;

  private static Token token(String text) {
    return Objects.requireNonNull(Token.of(text.strip()), "no token: " + text);
  }

  @Test
  void make_twice_fileHasALineForEachAndNoSecret() throws Exception {
    Path file = folder.resolve("tokens");
    String[] words = {"token", "make", "--name=ci", "--role=write", "--file=" + file};
    Ran first = Ran.run(words);
    Ran second = Ran.run(words);
    assertEquals(0, first.exitCode(), first.err());
    List<String> lines = Files.readAllLines(file);
    assertEquals(2, lines.size());
    assertFalse(Files.readString(file).contains(first.out().strip().substring(17)));
    assertTrue(TokenLine.parse(lines.get(0)).accepts(token(first.out()), Instant.now()));
    assertTrue(TokenLine.parse(lines.get(1)).accepts(token(second.out()), Instant.now()));
    assertFalse(TokenLine.parse(lines.get(0)).accepts(token(second.out()), Instant.now()));
  }

  @Test
  void make_newFile_hasItsFoldersGroup() throws Exception {
    assumeTrue(System.getProperty("user.name").equals("root"), "only root can give files away");
    Files.setAttribute(folder, "unix:gid", 7);
    Path file = folder.resolve("tokens");
    Ran ran = Ran.run("token", "make", "--name=a", "--role=read", "--file=" + file);
    assertEquals(0, ran.exitCode(), ran.err());
    assertEquals(7, Files.getAttribute(file, "unix:gid"));
    assertEquals("", ran.err());

    Files.setAttribute(folder, "unix:gid", 0);
    Path ofRoot = folder.resolve("of-root");
    Ran told = Ran.run("token", "make", "--name=a", "--role=read", "--file=" + ofRoot);
    assertEquals(0, told.exitCode(), told.err());
    assertTrue(told.err().contains("chgrp kvtier " + ofRoot), told.err());
  }

  @Test
  void make_json_isOneObject() {
    Ran ran = Ran.run("token", "make", "--name=a", "--role=read", "--json");
    JsonObject made = Json.parse(ran.out()).asObject();
    TokenLine line = TokenLine.parse(made.getString("line", ""));
    assertTrue(line.accepts(token(made.getString("token", "")), Instant.now()));
    assertEquals("", ran.err());
  }

  @Test
  void make_withoutFile_lineIsOnTheErrorOutput() {
    Ran ran = Ran.run("token", "make", "--name=a", "--role=read", "--tenant=t", "--expires=2d");
    TokenLine line = TokenLine.parse(ran.err());
    assertEquals(Role.READ, line.role());
    assertEquals("t", line.tenant());
    assertTrue(line.accepts(token(ran.out()), Instant.now().plus(Duration.ofDays(1))));
    assertFalse(line.accepts(token(ran.out()), Instant.now().plus(Duration.ofDays(3))));
  }

  @Test
  void hash_ofAToken_printsALineThatAcceptsIt() {
    String secret = Ran.run("token", "make", "--name=a", "--role=read").out();
    InputStream before = System.in;
    try {
      System.setIn(new ByteArrayInputStream(secret.getBytes(StandardCharsets.US_ASCII)));
      Ran ran = Ran.run("token", "hash", "--name=b", "--role=admin");
      TokenLine line = TokenLine.parse(ran.out());
      assertEquals("b", line.name());
      assertTrue(line.accepts(token(secret), Instant.now()));
    } finally {
      System.setIn(before);
    }
  }

  @Test
  void make_wrongWords_sayWhatWasExpected() {
    assertTrue(Ran.run("token", "make", "--name=a", "--role=owner").err().contains("'owner'"));
    assertTrue(Ran.run("token", "make", "--name=a b", "--role=read").err().contains("'a b'"));
    assertEquals(
        2, Ran.run("token", "make", "--name=a", "--role=read", "--expires=soon").exitCode());
  }
}
