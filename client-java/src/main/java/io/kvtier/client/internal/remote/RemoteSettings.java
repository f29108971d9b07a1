package io.kvtier.client.internal.remote;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The arguments of a client that uses gRPC.
 *
 * @param timeout the timeout of operations that bring none
 * @param credentials what the client shows to the daemon, and whom it trusts
 */
public record RemoteSettings(RemoteAddress address, Duration timeout, Credentials credentials) {
  private static final Pattern TOKEN = Pattern.compile("kvt_\\S+");

  /**
   * What a client shows to the daemon, and whom it trusts. Each may be missing.
   *
   * @param authority a PEM file with the certificate that signed the daemon's
   * @param certificate a PEM file with this client's certificate
   * @param key a PEM file with the key of the certificate
   */
  public record Credentials(
      @Nullable String token,
      @Nullable Path tokenFile,
      @Nullable Path authority,
      @Nullable Path certificate,
      @Nullable Path key) {

    /**
     * The token to send, read anew from its file: it may have been replaced. Null: none.
     *
     * @throws IllegalArgumentException if the file can't be read or holds no token
     */
    public @Nullable String currentToken() {
      String text = token;
      if (tokenFile != null) {
        try {
          text = Files.readString(tokenFile).strip();
        } catch (IOException e) {
          throw new IllegalArgumentException(
              "the token file '" + tokenFile + "' can't be read: " + e.getMessage(), e);
        }
      }
      if (text != null && !TOKEN.matcher(text).matches()) {
        throw new IllegalArgumentException(
            (tokenFile == null ? "the token" : "'" + tokenFile + "'")
                + " is no token; expected kvt_..., as 'kvtier token make' prints it");
      }
      return text;
    }
  }
}
