package io.kvtier.daemon.http;

import io.vertx.core.buffer.Buffer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.util.Locale;
import java.util.zip.GZIPOutputStream;
import org.jspecify.annotations.Nullable;

/** Compresses bodies for those who take that. */
final class Gzip {
  /** A packet holds as much anyway. */
  static final int BYTES_MIN = 1400;

  private Gzip() {}

  /** Whether an Accept-Encoding header allows gzip. */
  static boolean isAccepted(@Nullable String encodings) {
    if (encodings == null) {
      return false;
    }
    double any = 0;
    for (String each : encodings.toLowerCase(Locale.ROOT).split(",", -1)) {
      String coding = each.split(";", 2)[0].strip();
      if (coding.equals("gzip") || coding.equals("x-gzip")) {
        return Weights.of(each) > 0;
      }
      if (coding.equals("*")) {
        any = Weights.of(each);
      }
    }
    return any > 0;
  }

  static Buffer compressed(Buffer body) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(body.length() / 4);
    try (OutputStream gzip = new GZIPOutputStream(bytes)) {
      gzip.write(body.getBytes());
    } catch (IOException e) {
      throw new UncheckedIOException("memory can be written", e);
    }
    return Buffer.buffer(bytes.toByteArray());
  }
}
