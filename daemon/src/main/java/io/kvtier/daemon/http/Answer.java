package io.kvtier.daemon.http;

import io.kvtier.protocol.Printable;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.Map;

/**
 * What a request gets: a status and a body.
 *
 * @param headers of this answer alone; they go before those that all answers have
 */
record Answer(int status, String type, Buffer body, Map<String, String> headers) {
  private static final String JSON = "application/json";
  private static final String PROBLEM = "application/problem+json";

  Answer {
    headers = Map.copyOf(headers);
  }

  Answer(int status, String type, Buffer body) {
    this(status, type, body, Map.of());
  }

  static Answer json(JsonObject body) {
    return json(200, body);
  }

  static Answer json(JsonArray body) {
    return new Answer(200, JSON, printable(body.encode()));
  }

  static Answer json(int status, JsonObject body) {
    return new Answer(status, JSON, printable(body.encode()));
  }

  /** Somebody may look at it on a terminal. */
  private static Buffer printable(String json) {
    return Buffer.buffer(Printable.of(json));
  }

  static Answer text(String type, String text) {
    return new Answer(200, type, Buffer.buffer(text));
  }

  /** Why there is no other answer, in the form of RFC 9457. */
  static Answer problem(int status, String detail) {
    JsonObject body =
        new JsonObject()
            .put("title", HttpResponseStatus.valueOf(status).reasonPhrase())
            .put("status", status)
            .put("detail", detail);
    return new Answer(status, PROBLEM, printable(body.encode()));
  }
}
