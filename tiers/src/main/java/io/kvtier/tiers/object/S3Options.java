package io.kvtier.tiers.object;

import java.net.URI;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * The options of an {@link S3ObjectStore}, without credentials. The SDK finds these in the
 * environment, system properties, the profile, the container or the machine.
 *
 * @param profile of the SDK's files; empty for the default
 */
public record S3Options(
    Bucket bucket,
    String profile,
    Writing writing,
    ChecksumMode checksums,
    Connections connections) {
  private static final int PORT_MAX = 65535;

  /** The form of an endpoint. It has no credentials, because the address is shown. */
  public static final String ENDPOINT_FORM =
      "the form http[s]://host[:port], with a port from 1 to " + PORT_MAX;

  /** The form of a proxy. */
  public static final String PROXY_FORM =
      "the form http[s]://[user:password@]host:port, with a port from 1 to " + PORT_MAX;

  /** The part of a request's address that names the bucket. */
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
   * The place of the objects.
   *
   * @param endpoint of a server that speaks S3; null for AWS's own, by region
   * @param region any text will do for most servers that are not AWS's
   * @param prefix what the names of all objects start with; may be empty
   */
  public record Bucket(
      @Nullable URI endpoint, String region, String name, String prefix, Addressing addressing) {
    public Bucket {
      if (name.isBlank()) {
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
      prefix = ObjectNames.checkPrefix(prefix);
    }

    /** A bucket without a prefix; a server that is not AWS's is addressed by paths. */
    public static Bucket of(@Nullable URI endpoint, String region, String name) {
      return new Bucket(
          endpoint, region, name, "", endpoint == null ? Addressing.VIRTUAL : Addressing.PATH);
    }
  }

  /**
   * The connections to the server.
   *
   * @param proxy {@code http://[user:password@]host:port}; null for none
   * @param max limits the requests under way
   */
  public record Connections(
      Duration connectTimeout, Duration idleTimeout, @Nullable URI proxy, int max) {
    public Connections {
      if (proxy != null && !isProxy(proxy)) {
        throw new IllegalArgumentException("expected a proxy of " + PROXY_FORM + unlike(proxy));
      }
      if (max < 1) {
        throw new IllegalArgumentException("an S3 store needs at least one connection, not " + max);
      }
      if (!connectTimeout.isPositive() || !idleTimeout.isPositive()) {
        throw new IllegalArgumentException(
            "timeouts are longer than nothing: connect "
                + connectTimeout
                + ", idle "
                + idleTimeout);
      }
    }

    /** That many connections, without a proxy, with the usual timeouts. */
    public static Connections of(int max) {
      return new Connections(Duration.ofSeconds(2), Duration.ofSeconds(30), null, max);
    }
  }

  /**
   * How the server stores objects; empty texts leave that to the server.
   *
   * @param encryption {@code AES256}, {@code aws:kms}, {@code aws:kms:dsse}
   * @param kmsKey the key for {@code aws:kms}; empty for the key of the bucket
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

  /** The address that was given, where no password can be in it. */
  private static String unlike(URI given) {
    return given.toString().contains("@") ? "" : ", not '" + given + "'";
  }

  /** A bucket, with the default options. */
  public static S3Options of(@Nullable URI endpoint, String region, String bucket) {
    return new S3Options(
        Bucket.of(endpoint, region, bucket),
        "",
        Writing.PLAIN,
        ChecksumMode.WHEN_REQUIRED,
        Connections.of(64));
  }

  /** For people: which bucket, and where. */
  public String describe() {
    URI endpoint = bucket.endpoint;
    String at = endpoint == null ? bucket.region : endpoint.toString();
    return "s3://" + bucket.name + '/' + bucket.prefix + " at " + at;
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
