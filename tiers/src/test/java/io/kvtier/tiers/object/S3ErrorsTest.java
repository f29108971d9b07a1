package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.exception.SdkClientException;

final class S3ErrorsTest {
  private static String words(String message) {
    return S3Errors.outcome(new CompletionException(SdkClientException.create(message))).words();
  }

  @Test
  void outcome_noCredentials_saysWhereTheyCanBe() {
    String words =
        words(
            "Unable to load credentials from any of the providers in the chain"
                + " AwsCredentialsProviderChain(credentialsProviders=["
                + "Provider(), ".repeat(100));
    assertEquals(
        "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or"
            + " object.s3.profile, or give this machine a role",
        words);
  }

  @Test
  void outcome_ofAConnection_saysWhatHappened() {
    String words =
        words(
            "Unable to execute HTTP request: software.amazon.awssdk.crt.http.HttpException:"
                + " socket connection refused. (SDK Attempt Count: 1)");
    assertEquals("socket connection refused.", words);
  }

  @Test
  void outcome_longWords_areCut() {
    String words = words("<html>" + "x".repeat(100_000));
    assertTrue(words.length() < 500, words);
    assertTrue(words.endsWith("xxx..."), words);
  }
}
