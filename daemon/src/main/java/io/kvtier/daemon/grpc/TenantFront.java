package io.kvtier.daemon.grpc;

import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.v1.BlocksResponse;
import io.kvtier.protocol.v1.CancelRequest;
import io.kvtier.protocol.v1.CountResponse;
import io.kvtier.protocol.v1.FindNodesRequest;
import io.kvtier.protocol.v1.FindNodesResponse;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.KvtierGrpcService;
import io.kvtier.protocol.v1.LookupResponse;
import io.kvtier.protocol.v1.NamespaceRequest;
import io.kvtier.protocol.v1.Outcome;
import io.kvtier.protocol.v1.OutcomeResponse;
import io.kvtier.protocol.v1.PingRequest;
import io.kvtier.protocol.v1.PingResponse;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.kvtier.protocol.v1.ReportLoadsRequest;
import io.kvtier.protocol.v1.RetainRequest;
import io.kvtier.protocol.v1.StatsRequest;
import io.kvtier.protocol.v1.StatsResponse;
import io.vertx.core.http.HttpConnection;
import io.vertx.grpc.common.ServiceMethod;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * The front of one tenant on one event loop: the methods, a session with the index that sees only
 * this tenant's blocks, and the holds of each connection. Confined to the loop.
 */
final class TenantFront implements AutoCloseable {
  /** Makes a call of a method. */
  private interface Maker {
    Call<?> begin(RemoteConnection connection, GrpcStream stream, Role caller);
  }

  /**
   * A method.
   *
   * @param verb decides which roles may call the method
   * @param carriesBytes whether the method moves bytes of blocks
   */
  record Method(Verb verb, boolean carriesBytes, Maker maker) {}

  private static final SchemaBook SCHEMA = new SchemaBook();

  private final IndexGateway gateway;
  private final Namespaces namespaces;
  private final Call.Environment environment;
  private final Consumer<Namespaces.Namespace> forget;
  private final ServingStates states;
  private final WatchCall.Count watches = new WatchCall.Count();
  private final Map<String, Method> methods = new HashMap<>();
  private final Map<HttpConnection, RemoteConnection> connections = new HashMap<>();

  /**
   * The front of one tenant on one event loop.
   *
   * @param forget makes every event loop forget a namespace that no connection uses
   */
  TenantFront(
      Call.Environment environment,
      KvtierService service,
      ServingStates states,
      Consumer<Namespaces.Namespace> forget) {
    this.forget = forget;
    this.states = states;
    this.gateway = environment.gateway();
    this.namespaces = environment.namespaces();
    this.environment = environment;
    addMethods(service);
  }

  /** The method of a path; null if there is none. */
  @Nullable Method method(String path) {
    return methods.get(path);
  }

  /**
   * Makes a call of a method.
   *
   * @param caller the role of the caller
   */
  Call<?> begin(Method method, GrpcStream stream, Role caller) {
    RemoteConnection connection =
        connections.computeIfAbsent(
            stream.connection(), c -> new RemoteConnection(gateway, namespaces, forget));
    return method.maker.begin(connection, stream, caller);
  }

  /** Whether a connection has no call under way here and no hold. */
  boolean isIdle(HttpConnection connection) {
    RemoteConnection known = connections.get(connection);
    return known == null || known.isIdle();
  }

  /** A connection has ended. */
  void closed(HttpConnection connection) {
    RemoteConnection closed = connections.remove(connection);
    if (closed != null) {
      closed.close();
    }
  }

  /** Makes the session forget a namespace that is not in use. */
  void forget(Namespaces.Namespace namespace) {
    if (namespaces.mayEnd(namespace, this, () -> gateway.later(() -> forget(namespace)))) {
      gateway.forget(namespace.id());
    }
  }

  /** Gives everything back to the index, which must still run; the event loop must not. */
  @Override
  public void close() {
    gateway.close();
  }

  // ---- methods

  private void addMethods(KvtierService service) {
    unary(
        Verb.PING,
        KvtierGrpcService.Ping,
        PingRequest.parser(),
        outcome -> PingResponse.newBuilder().setOutcome(outcome).build(),
        service::ping);
    unary(
        Verb.REGISTER,
        KvtierGrpcService.Register,
        RegisterRequest.parser(),
        outcome -> RegisterResponse.newBuilder().setOutcome(outcome).build(),
        service::register);
    unary(
        Verb.UNREGISTER,
        KvtierGrpcService.Unregister,
        NamespaceRequest.parser(),
        TenantFront::outcomeOnly,
        service::unregister);
    unary(
        Verb.LOOKUP,
        KvtierGrpcService.Lookup,
        KeysRequest.parser(),
        outcome -> LookupResponse.newBuilder().setOutcome(outcome).build(),
        service::lookup);
    unary(
        Verb.LOOKUP,
        KvtierGrpcService.FindNodes,
        FindNodesRequest.parser(),
        outcome -> FindNodesResponse.newBuilder().setOutcome(outcome).build(),
        service::findNodes);
    keys(
        Verb.PREFETCH,
        KvtierGrpcService.Prefetch,
        (c, m) -> service.eachBlock(Verb.PREFETCH, c, m));
    keys(Verb.DELETE, KvtierGrpcService.Delete, (c, m) -> service.eachBlock(Verb.DELETE, c, m));
    keys(Verb.PIN, KvtierGrpcService.Pin, service::pin);
    keys(Verb.UNPIN, KvtierGrpcService.Unpin, service::unpin);
    unary(
        Verb.RETAIN,
        KvtierGrpcService.Retain,
        RetainRequest.parser(),
        outcome -> BlocksResponse.newBuilder().setOutcome(outcome).build(),
        service::retain);
    count(Verb.CLEAR, KvtierGrpcService.Clear, (c, m) -> service.countBlocks(Verb.CLEAR, c, m));
    count(Verb.FLUSH, KvtierGrpcService.Flush, (c, m) -> service.countBlocks(Verb.FLUSH, c, m));
    unary(
        Verb.REPORT_LOADS,
        KvtierGrpcService.ReportLoads,
        ReportLoadsRequest.parser(),
        TenantFront::outcomeOnly,
        service::reportLoads);
    unary(
        Verb.CANCEL,
        KvtierGrpcService.Cancel,
        CancelRequest.parser(),
        TenantFront::outcomeOnly,
        service::cancel);
    unary(
        Verb.STATS,
        KvtierGrpcService.Stats,
        StatsRequest.parser(),
        outcome -> StatsResponse.newBuilder().setOutcome(outcome).build(),
        service::stats);
    add(
        Verb.ACQUIRE,
        true,
        KvtierGrpcService.Get,
        (connection, stream, caller) -> new GetCall(environment, connection, stream));
    add(
        Verb.RESERVE,
        true,
        KvtierGrpcService.Put,
        (connection, stream, caller) -> new PutCall(environment, connection, stream));
    add(
        Verb.PING,
        "/grpc.health.v1.Health/Watch",
        (connection, stream, caller) ->
            new WatchCall(environment, connection, stream, states, watches));
    for (String version : List.of("v1", "v1alpha")) {
      // Both have the same messages.
      add(
          Verb.PING,
          "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo",
          (connection, stream, caller) ->
              new ReflectionCall(environment, connection, stream, SCHEMA));
    }
  }

  private static OutcomeResponse outcomeOnly(Outcome outcome) {
    return OutcomeResponse.newBuilder().setOutcome(outcome).build();
  }

  private void keys(
      Verb verb,
      ServiceMethod<KeysRequest, BlocksResponse> method,
      UnaryCall.Method<KeysRequest, BlocksResponse> handler) {
    unary(
        verb,
        method,
        KeysRequest.parser(),
        outcome -> BlocksResponse.newBuilder().setOutcome(outcome).build(),
        handler);
  }

  private void count(
      Verb verb,
      ServiceMethod<NamespaceRequest, CountResponse> method,
      UnaryCall.Method<NamespaceRequest, CountResponse> handler) {
    unary(
        verb,
        method,
        NamespaceRequest.parser(),
        outcome -> CountResponse.newBuilder().setOutcome(outcome).build(),
        handler);
  }

  private <Q, R extends MessageLite> void unary(
      Verb verb,
      ServiceMethod<Q, R> method,
      Parser<Q> parser,
      Function<Outcome, R> refusal,
      UnaryCall.Method<Q, R> handler) {
    add(
        verb,
        false,
        method,
        (connection, stream, caller) ->
            new UnaryCall<>(environment, connection, stream, caller, parser, refusal, handler));
  }

  private void add(Verb verb, String path, Maker maker) {
    methods.put(path, new Method(verb, false, maker));
  }

  private void add(Verb verb, boolean carriesBytes, ServiceMethod<?, ?> method, Maker maker) {
    methods.put("/" + method.fullMethodName(), new Method(verb, carriesBytes, maker));
  }
}
