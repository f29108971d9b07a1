package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import software.amazon.awssdk.awscore.exception.AwsErrorDetails;
import software.amazon.awssdk.core.exception.SdkClientException;
import software.amazon.awssdk.services.s3.model.S3Exception;

final class S3ErrorsTest {
  /** What a put that is answered so counts as: never as done, but where the object is there. */
  @ParameterizedTest
  @CsvSource({
    "301, PermanentRedirect, true, Denied",
    "400, ExpiredToken, true, Denied",
    "403, AccessDenied, true, Denied",
    "404, NoSuchKey, true, Denied",
    "404, NoSuchBucket, true, Denied",
    "404, '', false, Denied",
    "409, ConditionalRequestConflict, true, Throttled",
    "412, PreconditionFailed, true, Present",
    "412, PreconditionFailed, false, Unavailable",
    "416, InvalidRange, true, Unavailable",
    "500, InternalError, true, Unavailable",
    "503, SlowDown, true, Throttled",
    "503, ServiceUnavailable, true, Throttled",
  })
  void ofPut_eachAnswer_isOfItsKind(int status, String code, boolean ifAbsent, String kind) {
    Throwable answer =
        S3Exception.builder()
            .statusCode(status)
            .awsErrorDetails(
                AwsErrorDetails.builder()
                    .errorCode(code)
                    .errorMessage("the server's words")
                    .build())
            .message("the server's words")
            .build();
    StoreResult result = S3Errors.ofPut(new CompletionException(answer), ifAbsent);
    assertEquals(kind, result.getClass().getSimpleName(), result.words());
    if (result instanceof StoreResult.Denied || result instanceof StoreResult.Unavailable) {
      assertTrue(result.words().contains("the server's words"), result.words());
    }
  }

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
    assertEquals("socket connection refused", words);
  }

  @Test
  void outcome_sentenceWithACause_isOneSentence() {
    Throwable cause = new IllegalStateException("the host is unknown.");
    StoreResult result = S3Errors.outcome(SdkClientException.create("No connection. ", cause));
    assertEquals("No connection: the host is unknown", result.words());
  }

  @Test
  void outcome_longWords_areCut() {
    String words = words("<html>" + "x".repeat(100_000));
    assertTrue(words.length() < 500, words);
    assertTrue(words.endsWith("xxx..."), words);
  }
}
