package io.kvtier.cli;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import com.eclipsesource.json.ParseException;
import io.kvtier.policies.simulation.Trace;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.zip.GZIPInputStream;
import java.util.zip.ZipException;

/**
 * A trace in the format of Mooncake's: one JSON object a line, whose {@code hash_ids} are the ids
 * of a request's blocks in prefix order. A {@code block_bytes} tells the size of its blocks;
 * everything else in it is passed over. Plain, or compressed with gzip, whatever the file's name
 * says.
 */
final class MooncakeTrace {
  private static final int GZIP_MAGIC = 0x8b1f;

  /**
   * Requests of a trace.
   *
   * @param blockBytes the size of all blocks; 0 where the trace does not tell it, or tells several
   */
  record Contents(Trace trace, long blockBytes) {}

  private MooncakeTrace() {}

  /** Reads a trace; a {@link Failure} names the file, the line and what is wrong there. */
  static Contents read(Path file) {
    try (InputStream bytes = open(file);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(bytes, StandardCharsets.UTF_8))) {
      Trace.Builder builder = new Trace.Builder();
      int number = 0;
      int requests = 0;
      long blockBytes = 0;
      boolean isOneSize = true;
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        number++;
        if (!line.isBlank()) {
          try {
            JsonObject request = request(line);
            long size = blockBytes(request);
            isOneSize &= requests == 0 || size == blockBytes;
            requests++;
            blockBytes = size;
            builder.add(ids(request));
          } catch (IllegalArgumentException e) {
            throw new Failure(
                Failure.USAGE,
                "line "
                    + number
                    + " of the trace "
                    + file
                    + ": "
                    + e.getMessage()
                    + "; expected one JSON object a line, as in"
                    + " {\"timestamp\": 0, \"hash_ids\": [0, 1, 2]}");
          }
        }
      }
      Trace trace = builder.build();
      if (trace.references() == 0) {
        throw new Failure(
            Failure.USAGE, "the trace " + file + " has no requests; is it the right file?");
      }
      return new Contents(trace, isOneSize ? Math.max(0, blockBytes) : 0);
    } catch (NoSuchFileException e) {
      throw new Failure(Failure.USAGE, "there is no trace " + file + "; check --trace");
    } catch (ZipException e) {
      throw new Failure(
          Failure.USAGE, "the trace " + file + " is not whole gzip data: " + e.getMessage());
    } catch (IOException e) {
      throw new Failure(Failure.USAGE, "the trace " + file + " can't be read: " + e.getMessage());
    }
  }

  private static InputStream open(Path file) throws IOException {
    InputStream bytes = new BufferedInputStream(Files.newInputStream(file), 1 << 16);
    try {
      bytes.mark(2);
      int magic = bytes.read() | bytes.read() << 8;
      bytes.reset();
      return magic == GZIP_MAGIC ? new GZIPInputStream(bytes, 1 << 16) : bytes;
    } catch (IOException e) {
      bytes.close();
      throw e;
    }
  }

  private static JsonObject request(String line) {
    JsonValue value;
    try {
      value = Json.parse(line);
    } catch (ParseException e) {
      throw new IllegalArgumentException("not JSON: " + e.getMessage(), e);
    }
    if (!(value instanceof JsonObject request)) {
      throw new IllegalArgumentException("not a JSON object");
    }
    return request;
  }

  private static long blockBytes(JsonObject request) {
    JsonValue value = request.get("block_bytes");
    try {
      return value == null ? 0 : value.asLong();
    } catch (NumberFormatException | UnsupportedOperationException e) {
      throw new IllegalArgumentException(
          "block_bytes is " + value + ", which is not a whole number", e);
    }
  }

  private static long[] ids(JsonObject request) {
    if (!(request.get("hash_ids") instanceof JsonArray ids)) {
      throw new IllegalArgumentException("no list hash_ids");
    }
    long[] blocks = new long[ids.size()];
    for (int i = 0; i < blocks.length; i++) {
      try {
        blocks[i] = ids.get(i).asLong();
      } catch (NumberFormatException | UnsupportedOperationException e) {
        throw new IllegalArgumentException(
            "hash_ids has " + ids.get(i) + ", which is not a whole number", e);
      }
    }
    return blocks;
  }
}
