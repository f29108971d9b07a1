package io.kvtier.daemon.http;

import io.kvtier.daemon.loop.EventLoops;
import io.kvtier.daemon.node.NodeFinder;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import java.util.List;

/** Which nodes have most of a sequence of blocks, for routers. Confined to the event loop. */
final class NodeRoute {
  static final List<String> PARAMETERS = List.of("namespace", "group", "keys", "limit");
  private static final int NODES_USUAL = 8;
  private static final int NODES_MAX = 1024;
  private static final long TIMEOUT_MS = 5_000;

  private final NodeFinder finder;
  private final Context loop;

  NodeRoute(NodeFinder finder, Context loop) {
    this.finder = finder;
    this.loop = loop;
  }

  /** Answers a request. */
  Future<Answer> find(Query query) {
    String namespace = query.text("namespace", "a namespace, as kvtier namespaces shows it");
    int limit = query.number("limit", 1, NODES_MAX, NODES_USUAL);
    NodeFinder.Sought sought;
    try {
      sought =
          NodeFinder.Sought.ofOperator(
              namespace,
              query.number("group", 0, NodeFinder.Sought.GROUP_MAX, 0),
              List.of(
                  query
                      .text("keys", "keys in hexadecimal, with commas between them")
                      .split(",", -1)));
    } catch (IllegalArgumentException e) {
      throw new ProblemException(400, "parameter 'keys': " + e.getMessage());
    }
    Promise<Answer> promise = Promise.promise();
    long timer =
        loop.owner()
            .setTimer(
                TIMEOUT_MS,
                t ->
                    promise.tryFail(
                        new ProblemException(
                            503, "the index has not answered within " + TIMEOUT_MS + " ms")));
    promise.future().onComplete(done -> loop.owner().cancelTimer(timer));
    finder.find(sought, answer -> tell(promise, answer, namespace, limit));
    return promise.future();
  }

  private void tell(Promise<Answer> promise, NodeFinder.Answer found, String namespace, int limit) {
    EventLoops.run(
        loop,
        () -> {
          Answer answer = answer(found, namespace, limit);
          promise.tryComplete(answer);
        });
  }

  private static Answer answer(NodeFinder.Answer found, String namespace, int limit) {
    return switch (found) {
      case NodeFinder.Answer.Found nodes -> Answer.json(nodes.json(limit));
      case NodeFinder.Answer.NoNamespace _ ->
          Answer.problem(
              404,
              "this node knows no namespace '"
                  + namespace
                  + "': /api/v1/namespaces has those that it knows");
      case NodeFinder.Answer.Busy _ ->
          Answer.problem(503, "too many such questions are under way: ask again");
    };
  }
}
