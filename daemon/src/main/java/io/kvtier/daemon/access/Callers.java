package io.kvtier.daemon.access;

import io.kvtier.daemon.config.KvtierdConfig.AccessConfig;
import io.kvtier.protocol.access.Role;
import java.io.IOException;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Finds out who calls over the network, from what a call brings: with a tokens file, from its
 * token; without one, everybody whom the listener lets in may the same. From any thread.
 */
public final class Callers {
  private static final String SCHEME = "bearer ";

  private final @Nullable TokenFile tokens;
  private final Grant withoutToken;

  /**
   * Reads the tokens.
   *
   * @param tenants the names of all tenants, each at its number
   * @throws IOException in words what is wrong with the file
   */
  public Callers(AccessConfig config, List<String> tenants) throws IOException {
    tokens =
        config.tokens() == null
            ? null
            : new TokenFile(config.tokens(), tenants, Instant::now, System::nanoTime);
    withoutToken = new Grant("anybody", config.withoutToken(), Grant.NO_TENANT);
  }

  /**
   * Who calls.
   *
   * @param authorization the header of that name; null where there is none
   * @return null for a caller who brings no token, or one that is not valid
   */
  public @Nullable Grant of(@Nullable String authorization) {
    if (tokens == null) {
      return withoutToken.role() == Role.NONE ? null : withoutToken;
    }
    if (authorization == null
        || authorization.length() <= SCHEME.length()
        || !authorization.substring(0, SCHEME.length()).toLowerCase(Locale.ROOT).equals(SCHEME)) {
      return null;
    }
    return tokens.grantOf(authorization.substring(SCHEME.length()).strip());
  }

  /** What to tell a caller who is not known. The same for all, so that nothing is learned by it. */
  public String refusal() {
    return tokens == null
        ? "this listener takes no calls without a token, and there are no tokens"
            + " (access.tokens, access.without_token)"
        : "a valid token is needed, as 'authorization: Bearer kvt_...'";
  }
}
