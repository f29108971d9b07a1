package io.kvtier.daemon.http;

import io.vertx.core.Future;
import io.vertx.core.MultiMap;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpServerResponse;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What is answered where. All of it is read only, so there is GET and HEAD. */
final class Routes {
  private static final Logger LOG = LoggerFactory.getLogger(Routes.class);
  private static final String METHODS = "GET, HEAD";

  /** Answers requests for one path. */
  @FunctionalInterface
  interface Route {
    /**
     * The answer.
     *
     * @throws ProblemException where the request is mistaken
     */
    Future<Answer> answer(HttpServerRequest request);
  }

  private final Map<String, Route> routes = new LinkedHashMap<>();
  private final Gate gate;

  /**
   * No routes.
   *
   * @param gate of those that are guarded
   */
  Routes(Gate gate) {
    this.gate = gate;
  }

  void add(String path, Route route) {
    routes.put(path, route);
  }

  /** A route for those only whom the gate lets in. */
  void addGuarded(String path, Route route) {
    add(
        path,
        request -> {
          Answer refusal = gate.refusal(request);
          return refusal == null ? route.answer(request) : Future.succeededFuture(refusal);
        });
  }

  /** The same, whose parameters are checked. */
  void add(
      String path,
      List<String> parameters,
      java.util.function.Function<Query, Future<Answer>> route) {
    addGuarded(path, request -> route.apply(new Query(decoded(request), parameters)));
  }

  private static MultiMap decoded(HttpServerRequest request) {
    try {
      return request.params();
    } catch (IllegalArgumentException e) {
      throw new ProblemException(400, "the query can't be decoded: " + e.getMessage());
    }
  }

  /** Answers a request. */
  Future<Answer> answer(HttpServerRequest request) {
    String path = request.path();
    Route route = path == null ? null : routes.get(path);
    if (route == null) {
      return Future.succeededFuture(
          Answer.problem(404, "nothing is at '" + path + "': there are " + routes.keySet()));
    }
    if (!request.method().equals(HttpMethod.GET) && !request.method().equals(HttpMethod.HEAD)) {
      return Future.succeededFuture(
          Answer.problem(405, "'" + path + "' takes " + METHODS + ", not " + request.method()));
    }
    if (hasBody(request)) {
      return Future.succeededFuture(Answer.problem(413, "no request here has a body"));
    }
    try {
      return route.answer(request).recover(cause -> Future.succeededFuture(failed(path, cause)));
    } catch (ProblemException e) {
      return Future.succeededFuture(e.answer());
    } catch (RuntimeException e) {
      return Future.succeededFuture(failed(path, e));
    }
  }

  private static boolean hasBody(HttpServerRequest request) {
    String length = request.getHeader("Content-Length");
    return (length != null && !length.equals("0"))
        || request.getHeader("Transfer-Encoding") != null;
  }

  private static Answer failed(String path, Throwable cause) {
    if (cause instanceof ProblemException problem) {
      return problem.answer();
    }
    LOG.error("{} could not be answered", path, cause);
    return Answer.problem(500, "a defect of the daemon: " + cause);
  }

  /** Writes an answer; of a request that is not taken, nothing more is read. */
  static Future<Void> write(HttpServerRequest request, Answer answer) {
    HttpServerResponse response = request.response();
    response
        .setStatusCode(answer.status())
        .putHeader("Cache-Control", "no-store")
        .putHeader("X-Content-Type-Options", "nosniff")
        .putHeader("Vary", "Accept, Accept-Encoding");
    answer.headers().forEach(response::putHeader);
    Buffer body = answer.body();
    if (body.length() >= Gzip.BYTES_MIN && Gzip.isAccepted(request.getHeader("Accept-Encoding"))) {
      body = Gzip.compressed(body);
      response.putHeader("Content-Encoding", "gzip");
      String tag = answer.headers().get("ETag");
      if (tag != null) {
        // The bytes are others than those without compression.
        response.putHeader("ETag", "W/" + tag);
      }
    }
    if (answer.status() != 304) {
      response
          .putHeader("Content-Type", answer.type())
          .putHeader("Content-Length", Integer.toString(body.length()));
    }
    if (answer.status() == 405) {
      response.putHeader("Allow", METHODS);
    }
    if (answer.status() == 401) {
      response.putHeader("WWW-Authenticate", "Bearer");
    }
    boolean isLast = hasBody(request);
    if (isLast) {
      response.putHeader("Connection", "close");
    }
    Future<Void> written =
        request.method().equals(HttpMethod.HEAD) ? response.end() : response.end(body);
    return isLast ? written.eventually(() -> request.connection().close()) : written;
  }
}
