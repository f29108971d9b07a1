package io.kvtier.daemon.doctor;

import io.kvtier.daemon.config.KvtierdConfig.ObjectConfig;
import io.kvtier.daemon.config.KvtierdConfig.ObjectPlace;
import io.kvtier.tiers.object.FolderObjectStore;
import io.kvtier.tiers.object.ObjectStore;
import io.kvtier.tiers.object.S3ObjectStore;
import io.kvtier.tiers.object.S3Options;
import io.kvtier.tiers.object.StoreCall;
import io.kvtier.tiers.object.StoreResult;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.HttpURLConnection;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** Checks the object store: whether it answers, and what this node may do there. */
final class StoreChecks {
  private static final long CALL_NS = TimeUnit.SECONDS.toNanos(8);
  private static final int CONNECT_MS = 4000;
  private static final int PROBE_BYTES = 4096;

  /** S3 refuses requests that are signed at another time than this. */
  private static final Duration SKEW_REFUSED = Duration.ofMinutes(15);

  private static final Duration SKEW_LARGE = Duration.ofMinutes(1);

  private final ObjectConfig config;

  StoreChecks(ObjectConfig config) {
    this.config = config;
  }

  List<Finding> findings() {
    List<Finding> findings = new ArrayList<>();
    try {
      switch (config.place()) {
        case ObjectPlace.None _ ->
            findings.add(Finding.pass("object store", "none: object.store is none"));
        case ObjectPlace.Folder(var path, var mode) -> {
          try (ObjectStore store = new FolderObjectStore(path, 1, mode)) {
            rights(store, findings, "give the daemon's user the folder, and space in it");
          }
        }
        case ObjectPlace.S3(var options) -> {
          findings.add(clock(options));
          try (ObjectStore store = new S3ObjectStore(options)) {
            rights(
                store,
                findings,
                "see object.s3.endpoint, region, bucket and proxy, the credentials (AWS_PROFILE,"
                    + " AWS_ACCESS_KEY_ID, ...), and that they allow s3:GetObject, PutObject,"
                    + " DeleteObject and ListBucket");
          }
        }
      }
    } catch (IOException | RuntimeException e) {
      findings.add(
          Finding.fail(
              "object store",
              "it can't be opened: " + e.getMessage(),
              "see object.store and what belongs to it"));
    }
    return findings;
  }

  /** Writes, finds, reads and deletes a small object. */
  private static void rights(ObjectStore store, List<Finding> findings, String cure) {
    String name = "kvtier-doctor/" + UUID.randomUUID();
    String check = "object store";
    try (Arena arena = Arena.ofShared()) {
      MemorySegment body = arena.allocate(PROBE_BYTES, 8);
      body.fill((byte) 42);
      long began = System.nanoTime();
      StoreResult put = end(store.put(name, List.of(body), false, CALL_NS));
      if (!(put instanceof StoreResult.Done)) {
        findings.add(
            Finding.fail(check, store.describe() + ": a put failed: " + put.words(), cure));
        return;
      }
      MemorySegment read = arena.allocate(PROBE_BYTES, 8);
      StoreResult got = end(store.get(name, 0, List.of(read), CALL_NS));
      boolean same = got instanceof StoreResult.Done && body.mismatch(read) < 0;
      StoreResult listed = end(store.list("kvtier-doctor/", "", 1, CALL_NS));
      StoreResult deleted = end(store.delete(List.of(name), CALL_NS));
      long ms = (System.nanoTime() - began) / 1_000_000;
      boolean well = true;
      well &= right(findings, store, "get", same, got, cure);
      well &= right(findings, store, "list", listed instanceof StoreResult.Page, listed, cure);
      well &= right(findings, store, "delete", deleted instanceof StoreResult.Done, deleted, cure);
      if (well) {
        findings.add(
            Finding.pass(check, store.describe() + ": put, get, list and delete in " + ms + " ms"));
      }
    }
  }

  private static boolean right(
      List<Finding> findings,
      ObjectStore store,
      String call,
      boolean isWell,
      StoreResult result,
      String cure) {
    if (!isWell) {
      String why = result instanceof StoreResult.Done ? "other bytes came back" : result.words();
      findings.add(
          Finding.fail("object store", store.describe() + ": a " + call + " failed: " + why, cure));
    }
    return isWell;
  }

  private static StoreResult end(StoreCall call) {
    return call.result().join();
  }

  /** Compares the clock with the date in an answer of the server. */
  private static Finding clock(S3Options options) {
    String check = "object store's clock";
    URI endpoint = options.bucket().endpoint();
    URI asked =
        endpoint == null
            ? URI.create("https://s3." + options.bucket().region() + ".amazonaws.com")
            : endpoint;
    if (options.connections().proxy() != null) {
      return Finding.pass(check, "not asked: there is a proxy between");
    }
    try {
      HttpURLConnection connection = (HttpURLConnection) asked.toURL().openConnection();
      connection.setRequestMethod("HEAD");
      connection.setConnectTimeout(CONNECT_MS);
      connection.setReadTimeout(CONNECT_MS);
      connection.setInstanceFollowRedirects(false);
      try {
        connection.connect();
        long date = connection.getHeaderFieldDate("Date", 0);
        if (date == 0) {
          return Finding.pass(check, asked.getHost() + " tells no time");
        }
        Duration skew = Duration.between(Instant.ofEpochMilli(date), Instant.now()).abs();
        String what = "this machine's differs from it by " + skew.toSeconds() + " s";
        String cure = "set the clock: timedatectl set-ntp true, or chronyc makestep";
        if (skew.compareTo(SKEW_REFUSED) > 0) {
          return Finding.fail(check, what + ": requests are refused", cure);
        }
        return skew.compareTo(SKEW_LARGE) > 0
            ? Finding.warn(check, what, cure)
            : Finding.pass(check, what);
      } finally {
        connection.disconnect();
      }
    } catch (IOException | IllegalArgumentException e) {
      return Finding.fail(
          check,
          asked.getHost() + ":" + port(asked) + " is not reached: " + e.getMessage(),
          "see object.s3.endpoint, its port, the name service and the firewall");
    }
  }

  private static int port(URI uri) {
    return uri.getPort() > 0 ? uri.getPort() : "http".equals(uri.getScheme()) ? 80 : 443;
  }
}
