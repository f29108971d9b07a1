package io.kvtier.tiers.object;

import java.io.IOException;
import java.net.URI;
import java.util.Properties;
import org.gaul.s3proxy.BlobStores;
import org.gaul.s3proxy.S3Proxy;
import org.gaul.s3proxy.blobstore.BlobStore;
import org.gaul.s3proxy.middleware.Middlewares;
import org.jspecify.annotations.Nullable;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.services.s3.model.CreateBucketRequest;

/**
 * An S3 server in this process, on a free port of the loopback, with one bucket in memory; or the
 * one that {@code KVTIER_S3_ENDPOINT} names, on the loopback too, with that bucket and our keys.
 */
public final class S3Server implements AutoCloseable {
  public static final String BUCKET = "blocks";
  private static final String IDENTITY = "tester";
  private static final String CREDENTIAL = "secret";

  private final @Nullable S3Proxy server;
  private final int port;

  private S3Server(@Nullable S3Proxy server, int port) {
    this.server = server;
    this.port = port;
  }

  public static S3Server start() {
    String elsewhere = System.getenv("KVTIER_S3_ENDPOINT");
    return elsewhere == null
        ? start(new Properties())
        : new S3Server(null, URI.create(elsewhere).getPort());
  }

  /** With s3proxy's own properties, such as those of its latency. */
  public static S3Server start(Properties middleware) {
    try {
      Properties properties = new Properties();
      properties.putAll(middleware);
      properties.setProperty("jclouds.provider", "transient-nio2");
      BlobStore memory = BlobStores.create("transient-nio2", properties);
      memory.createContainer(CreateBucketRequest.builder().bucket(BUCKET).build());
      BlobStore store =
          Middlewares.wrap(
              memory,
              properties,
              _ -> {
                throw new IllegalStateException("there is no other store behind this one");
              });
      Properties front = new Properties();
      front.setProperty("s3proxy.endpoint", "http://127.0.0.1:0");
      front.setProperty("s3proxy.authorization", "aws-v2-or-v4");
      front.setProperty("s3proxy.identity", IDENTITY);
      front.setProperty("s3proxy.credential", CREDENTIAL);
      S3Proxy server =
          S3Proxy.Builder.fromProperties(front).blobStore(store).stopTimeout(0).build();
      server.start();
      return new S3Server(server, server.getPort());
    } catch (Exception e) {
      throw new IllegalStateException("s3proxy did not start", e);
    }
  }

  public int port() {
    return port;
  }

  public URI endpoint() {
    return endpoint(port());
  }

  public static URI endpoint(int port) {
    return URI.create("http://127.0.0.1:" + port);
  }

  public static AwsCredentialsProvider credentials() {
    return StaticCredentialsProvider.create(AwsBasicCredentials.create(IDENTITY, CREDENTIAL));
  }

  @Override
  public void close() throws IOException {
    try {
      if (server != null) {
        server.stop();
      }
    } catch (Exception e) {
      throw new IOException("s3proxy did not stop", e);
    }
  }
}
