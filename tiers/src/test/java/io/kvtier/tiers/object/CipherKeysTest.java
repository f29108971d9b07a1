package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.object.KeySource.KeyCommand;
import io.kvtier.tiers.object.KeySource.KeyFile;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class CipherKeysTest {
  private static final byte[] KEY = TestKeys.bytes(1);
  private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);

  @TempDir Path folder;

  private KeyFile file(byte[] content, String permissions) throws IOException {
    Path path = folder.resolve("key");
    Files.write(path, content);
    Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
    return new KeyFile(path);
  }

  private KeyFile file(String content) throws IOException {
    return file(content.getBytes(StandardCharsets.ISO_8859_1), "rw-------");
  }

  private static KeyCommand shell(String script) {
    return new KeyCommand(List.of("sh", "-c", script), MINUTE_NS);
  }

  private static String refusal(KeySource source) {
    IOException error = assertThrows(IOException.class, () -> CipherKeys.load(source, List.of()));
    String message = String.valueOf(error.getMessage());
    assertTrue(message.contains(source.describe()), message);
    return message;
  }

  @Test
  void load_anyForm_isTheSameKey() throws IOException {
    String hex = HexFormat.of().formatHex(KEY);
    String base64 = Base64.getEncoder().encodeToString(KEY);
    for (String form :
        List.of(
            new String(KEY, StandardCharsets.ISO_8859_1),
            hex,
            hex.toUpperCase(Locale.ROOT) + "\n",
            base64,
            base64 + "\r\n",
            base64.substring(0, 43))) {
      CipherKeys keys = CipherKeys.load(file(form), List.of());
      assertEquals(TestKeys.key(1).id, keys.writing().id);
      assertEquals(TestKeys.key(1).secret, keys.writing().secret);
    }
  }

  @Test
  void load_olderKeys_areForReading() throws IOException {
    CipherKeys keys =
        CipherKeys.load(
            shell("printf " + HexFormat.of().formatHex(TestKeys.bytes(2))),
            List.of(file(HexFormat.of().formatHex(KEY))));
    assertEquals(TestKeys.key(2).id, keys.writing().id);
    assertNotNull(keys.byId(TestKeys.key(1).id));
    assertNotNull(keys.byId(TestKeys.key(2).id));
    assertNull(keys.byId(TestKeys.key(3).id));
    assertTrue(keys.toString().contains(CipherKey.text(TestKeys.key(1).id)), keys::toString);
  }

  @ParameterizedTest
  @ValueSource(strings = {"rw-r--r--", "rw----r--", "rw-rw----", "rw-----w-", "rw------x"})
  void load_fileOfOthersToo_isRefusedWithModeAndCure(String permissions) throws IOException {
    KeyFile file = file(KEY, permissions);
    String message = refusal(file);
    String bits = permissions.replace('-', '0').replaceAll("[rwx]", "1");
    int mode = Integer.parseInt(bits, 2);
    assertTrue(message.contains(String.format(Locale.ROOT, "mode %04o", mode)), message);
    assertTrue(message.contains("chmod 600 '" + file.path() + "'"), message);
  }

  @Test
  void load_fileOfTheGroupToo_isFine() throws IOException {
    CipherKeys.load(file(KEY, "r--r-----"), List.of());
  }

  @Test
  void load_linkToAFile_isJudgedByTheFile() throws IOException {
    KeyFile file = file(KEY, "rw-r--r--");
    Path link = Files.createSymbolicLink(folder.resolve("link"), file.path());
    assertTrue(refusal(new KeyFile(link)).contains("mode 0644"));
    Files.setPosixFilePermissions(file.path(), PosixFilePermissions.fromString("r--------"));
    CipherKeys.load(new KeyFile(link), List.of());
  }

  @Test
  void load_noFile_isRefused() throws IOException {
    assertTrue(refusal(new KeyFile(folder.resolve("none"))).contains("does not exist"));
    assertTrue(refusal(new KeyFile(folder)).contains("is no file"));
  }

  @Test
  void load_noKey_isRefusedWithoutSayingItsBytes() throws IOException {
    String secret = "correcthorsebatterystaple";
    for (String content :
        List.of(
            "",
            secret,
            secret + "0123456", // 32 characters
            "z".repeat(64),
            HexFormat.of().formatHex(KEY) + "00",
            HexFormat.of().formatHex(KEY).replace('0', 'g').substring(0, 63) + "g",
            "*".repeat(43),
            "\0".repeat(32),
            "00".repeat(32),
            new String(KEY, StandardCharsets.ISO_8859_1) + "\n",
            "a".repeat(100_000))) {
      String message = refusal(file(content));
      assertTrue(message.contains("32 random bytes"), message);
      assertFalse(message.contains("horse"), message);
      assertTrue(message.length() < 400, message);
    }
  }

  @Test
  void command_fails_isRefusedWithItsReason() {
    String message = refusal(shell("echo 'no such key in the KMS' >&2; exit 3"));
    assertTrue(message.contains("exits with 3: no such key in the KMS"), message);
    assertTrue(refusal(shell("exit 1")).contains("does not say why"));
    message = refusal(new KeyCommand(List.of("/no/such/program"), MINUTE_NS));
    assertTrue(message.contains("can't be run"), message);
  }

  @Test
  void command_printsTooMuch_isRefusedAndEnded() {
    assertTrue(refusal(shell("while :; do echo secret; done")).contains("more than 1024 bytes"));
  }

  @Test
  void command_readsItsInput_findsNone() throws IOException {
    CipherKeys.load(shell("cat; printf " + HexFormat.of().formatHex(KEY)), List.of());
  }

  /** What it started holds its output open. */
  @Test
  void command_takesTooLong_isEndedWithAllThatItStarted() throws Exception {
    Path pid = folder.resolve("pid");
    KeyCommand slow =
        new KeyCommand(
            List.of("sh", "-c", "sleep 600 & echo $! > '" + pid + "'; wait"),
            TimeUnit.SECONDS.toNanos(2));
    String message = refusal(slow);
    assertTrue(message.contains("has not ended after 2000 ms"), message);
    long started = Long.parseLong(Files.readString(pid).strip());
    ProcessHandle.of(started).ifPresent(process -> process.onExit().join());
  }

  @Test
  void command_withSecretArguments_doesNotSayThem() {
    KeyCommand command = new KeyCommand(List.of("false", "token"), MINUTE_NS);
    assertFalse(refusal(command).contains("token"));
    assertFalse(command.toString().contains("token"));
  }
}
