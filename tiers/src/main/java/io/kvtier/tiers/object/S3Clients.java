package io.kvtier.tiers.object;

import java.net.URI;
import java.time.Duration;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.awscore.retry.AwsRetryStrategy;
import software.amazon.awssdk.core.checksums.RequestChecksumCalculation;
import software.amazon.awssdk.core.checksums.ResponseChecksumValidation;
import software.amazon.awssdk.core.client.config.SdkAdvancedAsyncClientOption;
import software.amazon.awssdk.http.crt.AwsCrtAsyncHttpClient;
import software.amazon.awssdk.http.crt.ProxyConfiguration;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3AsyncClientBuilder;

/** Makes the SDK's client as the options have it. */
final class S3Clients {
  private S3Clients() {}

  static S3AsyncClient create(S3Options options, AwsCredentialsProvider credentials) {
    S3AsyncClientBuilder builder =
        S3AsyncClient.builder()
            .region(Region.of(options.bucket().region()))
            .credentialsProvider(credentials)
            .forcePathStyle(options.bucket().addressing() == S3Options.Addressing.PATH)
            // Puts bring the checksum that they have; gets are checked by the block's own.
            .requestChecksumCalculation(RequestChecksumCalculation.WHEN_REQUIRED)
            .responseChecksumValidation(ResponseChecksumValidation.WHEN_REQUIRED)
            .serviceConfiguration(s3 -> s3.chunkedEncodingEnabled(false))
            // The callers of the store decide on retries, and have a budget for them.
            .overrideConfiguration(c -> c.retryStrategy(AwsRetryStrategy.doNotRetry()))
            // The work at the end of a call is shorter than a change of threads.
            .asyncConfiguration(c ->
                c.advancedOption(
                    SdkAdvancedAsyncClientOption.FUTURE_COMPLETION_EXECUTOR, Runnable::run))
            .httpClientBuilder(http(options));
    URI endpoint = options.bucket().endpoint();
    if (endpoint != null) {
      builder.endpointOverride(endpoint);
    }
    return builder.build();
  }

  private static AwsCrtAsyncHttpClient.Builder http(S3Options options) {
    AwsCrtAsyncHttpClient.Builder http =
        AwsCrtAsyncHttpClient.builder()
            .maxConcurrency(options.connections().max())
            .connectionTimeout(options.connections().connectTimeout())
            .connectionAcquisitionTimeout(Duration.ofSeconds(60))
            .connectionMaxIdleTime(options.connections().idleTimeout());
    URI proxy = options.connections().proxy();
    if (proxy == null) {
      return http;
    }
    ProxyConfiguration.Builder configuration =
        ProxyConfiguration.builder()
            .scheme(proxy.getScheme())
            .host(proxy.getHost())
            .port(proxy.getPort());
    String user = proxy.getUserInfo();
    if (user != null) {
      int colon = user.indexOf(':');
      configuration
          .username(colon < 0 ? user : user.substring(0, colon))
          .password(colon < 0 ? "" : user.substring(colon + 1));
    }
    return http.proxyConfiguration(configuration.build());
  }
}
