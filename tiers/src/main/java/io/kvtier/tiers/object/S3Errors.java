package io.kvtier.tiers.object;

import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import software.amazon.awssdk.awscore.exception.AwsErrorDetails;
import software.amazon.awssdk.awscore.exception.AwsServiceException;

/** What the SDK throws, as outcomes. */
final class S3Errors {
  private static final int NOT_FOUND = 404;
  private static final int CONFLICT = 409;
  private static final int PRECONDITION_FAILED = 412;
  private static final int RANGE = 416;
  private static final int TOO_MANY = 429;
  private static final int SERVER = 500;
  private static final int SLOW_DOWN = 503;

  /** Longer than that no server means it. */
  private static final long RETRY_AFTER_S_MAX = 3600;

  /** What a server says, or the SDK, may be as long as a page. */
  private static final int WORDS_MAX = 400;

  /** What the SDK puts around an error's own words. */
  private static final Pattern SDK_NOISE =
      Pattern.compile(
          "Unable to execute HTTP request: |software\\.amazon\\.awssdk\\.[\\w.]+: | \\(SDK Attempt Count: \\d+\\)");

  private S3Errors() {}

  static StoreResult outcome(Throwable thrown) {
    Throwable cause = root(thrown);
    if (cause instanceof AwsServiceException answer) {
      String code = answer.awsErrorDetails() == null ? "" : code(answer.awsErrorDetails());
      return ofAnswer(
          answer.statusCode(), code, words(answer), retryAfterNs(answer.awsErrorDetails()));
    }
    return new StoreResult.Unavailable(words(cause));
  }

  /**
   * The outcome of a put that failed. What only a read can find, or only a write with a condition,
   * must not count as done, and is no answer of a store that works.
   */
  static StoreResult ofPut(Throwable thrown, boolean ifAbsent) {
    StoreResult result = outcome(thrown);
    return switch (result) {
      case StoreResult.Absent _ ->
          new StoreResult.Denied(
              "it answers a put with 404 ("
                  + words(root(thrown))
                  + "): see that the bucket is there");
      case StoreResult.Done _ ->
          new StoreResult.Unavailable("it answers a put with 416 (" + words(root(thrown)) + ")");
      case StoreResult.Present _ when !ifAbsent ->
          new StoreResult.Unavailable(
              "it answers 412 to a put without a condition (" + words(root(thrown)) + ")");
      default -> result;
    };
  }

  private static Throwable root(Throwable thrown) {
    Throwable cause = thrown;
    while ((cause instanceof CompletionException || cause instanceof ExecutionException)
        && cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause;
  }

  /** The outcome of an answer that is no success, and of a name in the answer to a delete. */
  static StoreResult ofAnswer(int status, String code, String words, long retryAfterNs) {
    return switch (code) {
      case "SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded" ->
          new StoreResult.Throttled(retryAfterNs);
      case "RequestTimeout", "InternalError" -> new StoreResult.Unavailable(words);
      case "NoSuchBucket" -> new StoreResult.Denied(words);
      case "BadDigest", "XAmzContentSHA256Mismatch" -> new StoreResult.Corrupt(words);
      default -> ofStatus(status, words, retryAfterNs);
    };
  }

  private static StoreResult ofStatus(int status, String words, long retryAfterNs) {
    return switch (status) {
      case NOT_FOUND -> new StoreResult.Absent();
      case PRECONDITION_FAILED -> new StoreResult.Present();
      // The range begins at the object's end or behind it.
      case RANGE -> new StoreResult.Done(0);
      // Somebody writes the same name at this moment.
      case CONFLICT, TOO_MANY, SLOW_DOWN -> new StoreResult.Throttled(retryAfterNs);
      default ->
          status >= SERVER ? new StoreResult.Unavailable(words) : new StoreResult.Denied(words);
    };
  }

  private static String code(AwsErrorDetails details) {
    return details.errorCode() == null ? "" : details.errorCode();
  }

  private static long retryAfterNs(@Nullable AwsErrorDetails details) {
    if (details == null || details.sdkHttpResponse() == null) {
      return 0;
    }
    for (Map.Entry<String, java.util.List<String>> header :
        details.sdkHttpResponse().headers().entrySet()) {
      if (header.getKey().toLowerCase(Locale.ROOT).equals("retry-after")
          && !header.getValue().isEmpty()) {
        return seconds(header.getValue().getFirst());
      }
    }
    return 0;
  }

  /** The header may be a date as well, which no S3 server was seen to send. */
  private static long seconds(String text) {
    try {
      long seconds = Long.parseLong(text.strip());
      return TimeUnit.SECONDS.toNanos(Math.clamp(seconds, 0, RETRY_AFTER_S_MAX));
    } catch (NumberFormatException e) {
      return 0;
    }
  }

  private static String words(Throwable thrown) {
    String message = String.valueOf(thrown.getMessage());
    // The SDK goes on with the names and the words of all its sources.
    if (message.startsWith("Unable to load credentials")) {
      return "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or"
          + " object.s3.profile, or give this machine a role";
    }
    String words = withoutStop(SDK_NOISE.matcher(wordsWithCause(thrown)).replaceAll(""));
    return words.length() <= WORDS_MAX ? words : words.substring(0, WORDS_MAX) + "...";
  }

  private static String wordsWithCause(Throwable thrown) {
    StringBuilder words = new StringBuilder(withoutStop(String.valueOf(thrown.getMessage())));
    Throwable cause = thrown.getCause();
    if (cause != null && cause.getMessage() != null && words.indexOf(cause.getMessage()) < 0) {
      words.append(": ").append(cause.getMessage());
    }
    return words.toString();
  }

  /** The SDK ends some reasons with a full stop; here they stand within a sentence. */
  private static String withoutStop(String words) {
    String stripped = words.stripTrailing();
    boolean isStop = stripped.endsWith(".") && !stripped.endsWith("..");
    return isStop ? stripped.substring(0, stripped.length() - 1) : stripped;
  }
}
