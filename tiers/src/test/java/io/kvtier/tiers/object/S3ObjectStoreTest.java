package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.testing.ChildJvm;
import java.net.URI;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.services.s3.S3AsyncClient;

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
        new S3Options.Bucket(
            server.endpoint(), "us-east-1", bucket, prefix, S3Options.Addressing.PATH),
        "",
        S3Options.Writing.PLAIN,
        checksums,
        S3Options.Connections.of(8));
  }

  @Test
  void put_whileTheJavaMachineShutsDown_isAnswered() throws Exception {
    String printed = ChildJvm.run(S3StopVictim.class, server.endpoint().toString());
    assertEquals(new StoreResult.Done(S3StopVictim.BYTES).toString(), printed.strip());
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
    IllegalArgumentException secret =
        assertThrows(
            IllegalArgumentException.class,
            () -> S3Options.of(URI.create("http://joe:hunter2@host"), "r", "b"));
    assertFalse(String.valueOf(secret.getMessage()).contains("hunter2"), secret.getMessage());
    assertRefused("bucket", () -> S3Options.of(null, "r", " "));
    assertRefused("region", () -> S3Options.of(null, "", "b"));
    assertRefused("AES256", () -> new S3Options.Writing("AES256", "key", ""));
  }

  @Test
  void removeUnfinished_uploads_areAborted() {
    S3Options options = options(S3Server.BUCKET, S3Options.ChecksumMode.WHEN_REQUIRED);
    try (S3AsyncClient client = S3Clients.create(options, S3Server.credentials())) {
      for (int i = 0; i < 3; i++) {
        beginUpload(client, options.bucket().prefix() + "upload" + i);
      }
      beginUpload(client, "another-" + options.bucket().prefix() + "upload");
      long now = System.currentTimeMillis();
      long dayMs = TimeUnit.DAYS.toMillis(1);
      assertEquals(new StoreResult.Done(0), await(store.removeUnfinished(now - dayMs, TIMEOUT_NS)));
      assertEquals(3, uploads(client, options.bucket().prefix()));
      long aborted = 0;
      // s3proxy answers an abort with 500 now and then; whoever asks again goes on from there.
      for (int tries = 0; tries < 20 && uploads(client, options.bucket().prefix()) > 0; tries++) {
        StoreResult result = await(store.removeUnfinished(now + dayMs, TIMEOUT_NS));
        if (result instanceof StoreResult.Done(long count)) {
          aborted += count;
        } else {
          assertInstanceOf(StoreResult.Unavailable.class, result);
        }
      }
      assertTrue(aborted <= 3, "aborted " + aborted);
      assertEquals(0, uploads(client, options.bucket().prefix()));
      assertEquals(1, uploads(client, "another-" + options.bucket().prefix()));
      assertEquals(new StoreResult.Done(0), await(store.removeUnfinished(now + dayMs, TIMEOUT_NS)));
    }
  }

  private static void beginUpload(S3AsyncClient client, String key) {
    client
        .createMultipartUpload(request -> request.bucket(S3Server.BUCKET).key(key))
        .orTimeout(60, TimeUnit.SECONDS)
        .join();
  }

  private static int uploads(S3AsyncClient client, String prefix) {
    return client
        .listMultipartUploads(request -> request.bucket(S3Server.BUCKET).prefix(prefix))
        .orTimeout(60, TimeUnit.SECONDS)
        .join()
        .uploads()
        .size();
  }

  private static void assertRefused(String word, org.junit.jupiter.api.function.Executable made) {
    IllegalArgumentException refusal = assertThrows(IllegalArgumentException.class, made);
    assertTrue(String.valueOf(refusal.getMessage()).contains(word), refusal.getMessage());
  }
}
