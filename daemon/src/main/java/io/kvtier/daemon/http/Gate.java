package io.kvtier.daemon.http;

import io.kvtier.daemon.access.Callers;
import io.kvtier.daemon.access.Grant;
import io.kvtier.protocol.access.Role;
import io.vertx.core.http.HttpServerRequest;
import org.jspecify.annotations.Nullable;

/**
 * Who may be told of the daemon's state: who may read. Where there are tenants, as what is told is
 * about all of them, who administers the daemon.
 */
final class Gate {
  private final Callers callers;
  private final Role needed;
  private final Runnable onRefusal;

  /**
   * A gate.
   *
   * @param hasTenants whether there are any besides the one of all who have none
   * @param onRefusal counts those who are not let in
   */
  Gate(Callers callers, boolean hasTenants, Runnable onRefusal) {
    this.callers = callers;
    this.onRefusal = onRefusal;
    this.needed = hasTenants ? Role.ADMIN : Role.READ;
  }

  /** Whether a request is of someone who may be told; asked of those that everybody may make. */
  boolean isOpen(HttpServerRequest request) {
    return mayKnow(callers.of(request.getHeader("Authorization")));
  }

  private boolean mayKnow(@Nullable Grant grant) {
    return grant != null && grant.tenant() == Grant.NO_TENANT && grant.role().covers(needed);
  }

  /** Why a request is not answered; null: it is. */
  @Nullable Answer refusal(HttpServerRequest request) {
    Grant grant = callers.of(request.getHeader("Authorization"));
    if (grant == null) {
      onRefusal.run();
      return Answer.problem(401, callers.refusal());
    }
    if (!mayKnow(grant)) {
      onRefusal.run();
      return Answer.problem(
          403,
          "this is about all tenants: a token of no tenant is needed, with the role "
              + needed.word()
              + " (kvtier token make, access.tokens)");
    }
    return null;
  }
}
