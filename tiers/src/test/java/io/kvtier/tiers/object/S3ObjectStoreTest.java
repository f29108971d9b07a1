package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;

final class S3ObjectStoreTest extends ObjectStoreContract {
  private static final AtomicInteger PREFIXES = new AtomicInteger();
  private static S3Server server;

  private final String prefix = "test" + PREFIXES.incrementAndGet();

  @BeforeAll
  static void start() {
    server = S3Server.start();
  }

  @AfterAll
  static void stop() throws Exception {
    server.close();
  }

  @Override
  ObjectStore open() {
    return new S3ObjectStore(
        options(S3Server.BUCKET, S3Options.ChecksumMode.WHEN_REQUIRED), S3Server.credentials());
  }

  private S3Options options(String bucket, S3Options.ChecksumMode checksums) {
    return new S3Options(
        server.endpoint(),
        "us-east-1",
        bucket,
        prefix,
        S3Options.Addressing.PATH,
        "",
        S3Options.Writing.PLAIN,
        checksums,
        Duration.ofSeconds(2),
        Duration.ofSeconds(30),
        null,
        8);
  }

  @Test
  void put_withChecksums_isTaken() {
    try (S3ObjectStore checked =
        new S3ObjectStore(
            options(S3Server.BUCKET, S3Options.ChecksumMode.WHEN_SUPPORTED),
            S3Server.credentials())) {
      assertEquals(
          new StoreResult.Done(100_000),
          await(checked.put("object", java.util.List.of(bytes(1, 100_000)), true, TIMEOUT_NS)));
    }
    var slot = arena.allocate(100_000);
    assertEquals(new StoreResult.Done(100_000), get("object", 0, slot));
    assertSameBytes(bytes(1, 100_000), slot);
  }

  @Test
  void get_wrongKey_isDenied() {
    try (S3ObjectStore stranger =
        new S3ObjectStore(
            options(S3Server.BUCKET, S3Options.ChecksumMode.WHEN_REQUIRED),
            StaticCredentialsProvider.create(AwsBasicCredentials.create("tester", "wrong")))) {
      StoreResult.Denied denied =
          assertInstanceOf(
              StoreResult.Denied.class,
              await(stranger.get("object", 0, java.util.List.of(arena.allocate(10)), TIMEOUT_NS)));
      assertTrue(denied.reason().contains("403"), denied.reason());
    }
  }

  @Test
  void put_noSuchBucket_isDenied() {
    try (S3ObjectStore nowhere =
        new S3ObjectStore(
            options("no-such-bucket", S3Options.ChecksumMode.WHEN_REQUIRED),
            S3Server.credentials())) {
      assertInstanceOf(
          StoreResult.Denied.class,
          await(nowhere.put("object", java.util.List.of(bytes(1, 10)), true, TIMEOUT_NS)));
    }
  }

  @Test
  void anyCall_nobodyListens_isUnavailable() {
    S3Options options =
        S3Options.of(URI.create("http://127.0.0.1:1"), "us-east-1", S3Server.BUCKET);
    try (S3ObjectStore nobody = new S3ObjectStore(options, S3Server.credentials())) {
      assertInstanceOf(StoreResult.Unavailable.class, await(nobody.head("object", TIMEOUT_NS)));
    }
  }

  @Test
  void options_thatCannotWork_areRefusedByName() {
    assertRefused("ftp://host", () -> S3Options.of(URI.create("ftp://host"), "r", "b"));
    assertRefused("http://host/path", () -> S3Options.of(URI.create("http://host/path"), "r", "b"));
    assertRefused("bucket", () -> S3Options.of(null, "r", " "));
    assertRefused("region", () -> S3Options.of(null, "", "b"));
    assertRefused("AES256", () -> new S3Options.Writing("AES256", "key", ""));
  }

  private static void assertRefused(String word, org.junit.jupiter.api.function.Executable made) {
    IllegalArgumentException refusal = assertThrows(IllegalArgumentException.class, made);
    assertTrue(String.valueOf(refusal.getMessage()).contains(word), refusal.getMessage());
  }
}
