package io.kvtier.tiers.object;

import java.net.URI;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * What an {@link S3ObjectStore} is told. Credentials are not here: they come from where the SDK
 * looks for them (environment, system properties, profile, container, machine).
 *
 * @param endpoint of a server that speaks S3; null for AWS's own, by region
 * @param region any text will do for most servers that are not AWS's
 * @param prefix what the names of all objects start with, in this bucket; may be empty
 * @param profile of the SDK's files; empty for the default
 * @param proxy {@code http://[user:password@]host:port}; null for none
 * @param connectionsMax what limits the requests under way
 */
public record S3Options(
    @Nullable URI endpoint,
    String region,
    String bucket,
    String prefix,
    Addressing addressing,
    String profile,
    Writing writing,
    ChecksumMode checksums,
    Duration connectTimeout,
    Duration idleTimeout,
    @Nullable URI proxy,
    int connectionsMax) {
  private static final int PORT_MAX = 65535;

  /** What is right for an endpoint. Credentials don't stand in it: the address is shown. */
  public static final String ENDPOINT_FORM =
      "the form http[s]://host[:port], with a port from 1 to " + PORT_MAX;

  /** What is right for a proxy. */
  public static final String PROXY_FORM =
      "the form http[s]://[user:password@]host:port, with a port from 1 to " + PORT_MAX;

  /** Where the bucket stands in a request. */
  public enum Addressing {
    /** {@code https://host/bucket/name}. */
    PATH,
    /** {@code https://bucket.host/name}. */
    VIRTUAL
  }

  /** Whether objects travel with a checksum in their headers. */
  public enum ChecksumMode {
    /** Only where S3 demands it: some servers refuse what they don't know. */
    WHEN_REQUIRED,
    /** With each put, so that the server refuses what was damaged on its way. */
    WHEN_SUPPORTED
  }

  /**
   * What a put asks of the server; empty texts ask nothing.
   *
   * @param encryption {@code AES256}, {@code aws:kms}, {@code aws:kms:dsse}
   * @param kmsKey the key of the {@code aws:kms} ones; empty for the bucket's
   * @param storageClass {@code STANDARD}, {@code EXPRESS_ONEZONE}, ...
   */
  public record Writing(String encryption, String kmsKey, String storageClass) {
    /** As the bucket has it. */
    public static final Writing PLAIN = new Writing("", "", "");

    public Writing {
      if (!kmsKey.isEmpty() && !takesKey(encryption)) {
        throw new IllegalArgumentException(
            "a KMS key was given, but the encryption is '"
                + encryption
                + "': write aws:kms or aws:kms:dsse");
      }
    }

    /** Whether a key can be named for an encryption. */
    public static boolean takesKey(String encryption) {
      return encryption.startsWith("aws:kms");
    }
  }

  public S3Options {
    if (bucket.isBlank()) {
      throw new IllegalArgumentException("an S3 store needs the name of its bucket");
    }
    if (region.isBlank()) {
      throw new IllegalArgumentException(
          "an S3 store needs a region: us-east-1 will do for most servers that are not AWS's");
    }
    if (endpoint != null && !isEndpoint(endpoint)) {
      throw new IllegalArgumentException(
          "expected an endpoint of " + ENDPOINT_FORM + unlike(endpoint));
    }
    if (proxy != null && !isProxy(proxy)) {
      throw new IllegalArgumentException("expected a proxy of " + PROXY_FORM + unlike(proxy));
    }
    if (connectionsMax < 1) {
      throw new IllegalArgumentException(
          "an S3 store needs at least one connection, not " + connectionsMax);
    }
    if (!connectTimeout.isPositive() || !idleTimeout.isPositive()) {
      throw new IllegalArgumentException(
          "timeouts are longer than nothing: connect " + connectTimeout + ", idle " + idleTimeout);
    }
    prefix = ObjectNames.checkPrefix(prefix);
  }

  /** The address that was given, where no password can be in it. */
  private static String unlike(URI given) {
    return given.toString().contains("@") ? "" : ", not '" + given + "'";
  }

  /** A bucket with all else as it is when nothing is said. */
  public static S3Options of(@Nullable URI endpoint, String region, String bucket) {
    return new S3Options(
        endpoint,
        region,
        bucket,
        "",
        endpoint == null ? Addressing.VIRTUAL : Addressing.PATH,
        "",
        Writing.PLAIN,
        ChecksumMode.WHEN_REQUIRED,
        Duration.ofSeconds(2),
        Duration.ofSeconds(30),
        null,
        64);
  }

  /** For people: which bucket, and where. */
  public String describe() {
    String at = endpoint == null ? region : endpoint.toString();
    return "s3://" + bucket + '/' + prefix + " at " + at;
  }

  /** Whether an address is of {@link #ENDPOINT_FORM}. */
  public static boolean isEndpoint(URI uri) {
    return uri.getHost() != null
        && isWeb(uri)
        && hasPort(uri)
        && !hasMore(uri.getPath())
        && uri.getRawUserInfo() == null;
  }

  /** Whether an address is of {@link #PROXY_FORM}. */
  public static boolean isProxy(URI uri) {
    return uri.getHost() != null && uri.getPort() >= 0 && hasPort(uri) && isWeb(uri);
  }

  private static boolean isWeb(URI uri) {
    return "http".equals(uri.getScheme()) || "https".equals(uri.getScheme());
  }

  /** A port, if there is one, that there can be. */
  private static boolean hasPort(URI uri) {
    return uri.getPort() != 0 && uri.getPort() <= PORT_MAX;
  }

  private static boolean hasMore(@Nullable String path) {
    return path != null && !path.isEmpty() && !path.equals("/");
  }
}
