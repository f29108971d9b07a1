package io.kvtier.daemon.grpc;

import com.google.protobuf.ByteString;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.node.NodeFinder;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolVersion;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.BlocksResponse;
import io.kvtier.protocol.v1.CancelRequest;
import io.kvtier.protocol.v1.CountResponse;
import io.kvtier.protocol.v1.FindNodesRequest;
import io.kvtier.protocol.v1.FindNodesResponse;
import io.kvtier.protocol.v1.Keys;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.LookupResponse;
import io.kvtier.protocol.v1.NamespaceRequest;
import io.kvtier.protocol.v1.NodeHold;
import io.kvtier.protocol.v1.OutcomeResponse;
import io.kvtier.protocol.v1.PingRequest;
import io.kvtier.protocol.v1.PingResponse;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.kvtier.protocol.v1.ReportLoadsRequest;
import io.kvtier.protocol.v1.RetainRequest;
import io.kvtier.protocol.v1.StatsRequest;
import io.kvtier.protocol.v1.StatsResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The methods that carry no bytes of blocks: each takes a message, asks the index, and answers with
 * a message.
 */
final class KvtierService {
  private static final int NODES_USUAL = 8;
  private static final int NODES_MAX = 1024;

  private final String version;
  private final Counters counters;
  private final Call.Environment environment;

  /** The methods for the calls of one event loop. */
  KvtierService(String version, Counters counters, Call.Environment environment) {
    this.version = version;
    this.counters = counters;
    this.environment = environment;
  }

  void ping(UnaryCall<PingRequest, PingResponse> call, PingRequest message) {
    call.ask(
        IndexRequest.plain(Verb.PING, 0, 0, call.deadlineNs()),
        answer ->
            call.respond(
                PingResponse.newBuilder()
                    .setOutcome(Wire.outcome(answer))
                    .setVersion(version)
                    .setProtocol(ProtocolVersion.describe(Protocol.VERSION))
                    .setChunkBytesMax(environment.chunkBytes())
                    .build()));
  }

  // ---- namespaces
  // -----------------------------------------------------------------------------------------------

  void register(UnaryCall<RegisterRequest, RegisterResponse> call, RegisterRequest message)
      throws RefusedException {
    byte[] text = properties(message);
    IndexRequest registration =
        IndexRequest.register(text, message.getBlockBytes(), call.role() == Role.READ);
    Namespaces namespaces = environment.namespaces();
    String name = message.getName();
    namespaces.registering(name);
    call.askAlways(
        registration,
        answer -> {
          RegisterResponse.Builder response =
              RegisterResponse.newBuilder()
                  .setOutcome(Wire.outcome(answer))
                  .setChunkBytesMax(environment.chunkBytes());
          if (answer.status() == Status.OK) {
            int id = (int) answer.value();
            environment.gateway().knows(id);
            int blockBytes = (int) message.getBlockBytes();
            BlockEncoding encoding = BlockEncoding.of(message.getPropertiesMap(), blockBytes);
            response.setNamespaceId(
                namespaces.add(id, name, blockBytes, encoding, registration).number());
            call.connection.uses(response.getNamespaceId());
          }
          namespaces.registered(name);
          call.connection.forgetIfEnded(response.getNamespaceId());
          call.respond(response.build());
        });
  }

  private static byte[] properties(RegisterRequest message) throws RefusedException {
    Map<String, String> properties = new TreeMap<>(message.getPropertiesMap());
    if (properties.put("name", message.getName()) != null) {
      throw new RefusedException(
          Status.INVALID_ARGUMENT, "'name' is a field of its own, not one of the properties");
    }
    StringBuilder text = new StringBuilder();
    for (Map.Entry<String, String> property : properties.entrySet()) {
      String name = property.getKey();
      String value = property.getValue();
      if (name.isEmpty()
          || name.indexOf('=') >= 0
          || name.indexOf('\n') >= 0
          || value.indexOf('\n') >= 0) {
        throw new RefusedException(
            Status.INVALID_ARGUMENT,
            "property '" + name + "': expected a name without '=', and no line breaks");
      }
      text.append(name).append('=').append(value).append('\n');
    }
    byte[] utf8 = text.toString().getBytes(StandardCharsets.UTF_8);
    if (utf8.length > Protocol.TEXT_BYTES_MAX) {
      throw new RefusedException(
          Status.TOO_LARGE,
          "the properties take "
              + utf8.length
              + " bytes, expected at most "
              + Protocol.TEXT_BYTES_MAX);
    }
    return utf8;
  }

  void unregister(UnaryCall<NamespaceRequest, OutcomeResponse> call, NamespaceRequest message)
      throws RefusedException {
    long number = message.getNamespaceId();
    Namespaces.Namespace _ = environment.namespaces().get(number);
    call.connection.usesNoMore(number);
    call.respond(OutcomeResponse.newBuilder().setOutcome(Wire.ok()).build());
  }

  void countBlocks(
      Verb verb, UnaryCall<NamespaceRequest, CountResponse> call, NamespaceRequest message)
      throws RefusedException {
    Namespaces.Namespace namespace = environment.namespace(message.getNamespaceId());
    call.named(message.getOperationId());
    call.ask(
        IndexRequest.plain(verb, namespace.id(), 0, call.deadlineNs()),
        answer ->
            call.respond(
                CountResponse.newBuilder()
                    .setOutcome(Wire.outcome(answer))
                    .setBlocks(answer.value())
                    .build()));
  }

  // ---- keys
  // -----------------------------------------------------------------------------------------------------

  private KeyBatch keys(KeysRequest message) throws RefusedException {
    return keys(message.getKeys());
  }

  private KeyBatch keys(Keys keys) throws RefusedException {
    return KeyBatch.of(keys, environment.namespace(keys.getNamespaceId()).id());
  }

  private static IndexRequest request(Verb verb, KeyBatch keys, UnaryCall<?, ?> call) {
    return IndexRequest.ofKeys(verb, keys, 0, RequestDescriptor.PRIORITY_NORMAL, call.deadlineNs());
  }

  private static BlocksResponse blocks(IndexAnswer answer) {
    return BlocksResponse.newBuilder()
        .setOutcome(Wire.outcome(answer))
        .addAllBlocks(Wire.blocks(answer))
        .build();
  }

  void lookup(UnaryCall<KeysRequest, LookupResponse> call, KeysRequest message)
      throws RefusedException {
    call.ask(
        request(Verb.LOOKUP, keys(message), call),
        answer ->
            call.respond(
                LookupResponse.newBuilder()
                    .setOutcome(Wire.outcome(answer))
                    .addAllBlocks(Wire.blocks(answer))
                    .setLeadingRun(answer.run())
                    .setEstimatedLoadNs(answer.value())
                    .build()));
  }

  void findNodes(UnaryCall<FindNodesRequest, FindNodesResponse> call, FindNodesRequest message)
      throws RefusedException {
    KeyBatch keys = keys(message.getKeys());
    int limit = message.getLimit() == 0 ? NODES_USUAL : message.getLimit();
    if (limit < 0 || limit > NODES_MAX) {
      throw new RefusedException(
          Status.INVALID_ARGUMENT,
          "limit is " + Integer.toUnsignedString(limit) + ", expected 1 to " + NODES_MAX);
    }
    NodeFinder.Sought sought =
        new NodeFinder.Sought(
            namespaces -> namespaces.byId(namespaces.idOf(keys.namespaceId())),
            keys.group(),
            keys.keys().stream().map(ByteString::toByteArray).toList());
    environment
        .finder()
        .find(
            sought,
            found ->
                environment
                    .loop()
                    .execute(() -> {
                      if (!call.isOver()) {
                        tell(call, found, limit);
                      }
                    }));
  }

  private static void tell(
      UnaryCall<FindNodesRequest, FindNodesResponse> call, NodeFinder.Answer found, int limit) {
    switch (found) {
      case NodeFinder.Answer.Found(List<NodeFinder.NodeHold> nodes) -> {
        FindNodesResponse.Builder response = FindNodesResponse.newBuilder().setOutcome(Wire.ok());
        nodes.stream()
            .limit(limit)
            .forEach(node ->
                response.addNodes(
                    NodeHold.newBuilder()
                        .setName(node.name())
                        .setAddress(node.address())
                        .setIsSelf(node.isSelf())
                        .setRun(node.run())
                        .setMemoryRun(node.memoryRun())
                        .setEstimatedLoadNs(node.loadNs())));
        call.respond(response.build());
      }
      case NodeFinder.Answer.NoNamespace _ ->
          call.refuse(Status.NAMESPACE_UNKNOWN, "the namespace was forgotten: call Register again");
      case NodeFinder.Answer.Busy _ ->
          call.refuse(Status.BUSY, "too many such questions are under way: ask again");
    }
  }

  /** PREFETCH and DELETE. */
  void eachBlock(Verb verb, UnaryCall<KeysRequest, BlocksResponse> call, KeysRequest message)
      throws RefusedException {
    call.ask(request(verb, keys(message), call), answer -> call.respond(blocks(answer)));
  }

  void pin(UnaryCall<KeysRequest, BlocksResponse> call, KeysRequest message)
      throws RefusedException {
    KeyBatch keys = keys(message);
    call.askAlways(
        request(Verb.PIN, keys, call),
        answer -> {
          for (int i = 0; i < answer.count(); i++) {
            if (answer.blockStatus(i) == Status.OK) {
              call.connection.pinned(keys, i);
            }
          }
          call.respond(blocks(answer));
        });
  }

  void unpin(UnaryCall<KeysRequest, BlocksResponse> call, KeysRequest message)
      throws RefusedException {
    KeyBatch keys = keys(message);
    List<ByteString> held = new ArrayList<>();
    int[] askedPlace = new int[keys.count()];
    for (int i = 0; i < keys.count(); i++) {
      askedPlace[i] = call.connection.unpinned(keys, i) ? held.size() : -1;
      if (askedPlace[i] >= 0) {
        held.add(keys.keys().get(i));
      }
    }
    if (held.isEmpty()) {
      call.respond(unpinned(askedPlace, IndexAnswer.refusal(Status.OK, "")));
      return;
    }
    KeyBatch asked =
        new KeyBatch(keys.namespaceId(), keys.group(), held, keys.keyBytes(), ByteString.EMPTY, 0);
    call.askAlways(
        request(Verb.UNPIN, asked, call),
        answer -> {
          if (answer.status() != Status.OK) {
            for (int i = 0; i < asked.count(); i++) {
              call.connection.pinned(asked, i); // they are pinned still
            }
            call.refuse(answer);
          } else {
            call.respond(unpinned(askedPlace, answer));
          }
        });
  }

  private static BlocksResponse unpinned(int[] askedPlace, IndexAnswer answer) {
    BlocksResponse.Builder response = BlocksResponse.newBuilder().setOutcome(Wire.ok());
    BlockResult miss = Wire.block(Status.MISS, TierId.NONE);
    for (int place : askedPlace) {
      response.addBlocks(
          place < 0 ? miss : Wire.block(answer.blockStatus(place), answer.blockTier(place)));
    }
    return response.build();
  }

  void retain(UnaryCall<RetainRequest, BlocksResponse> call, RetainRequest message)
      throws RefusedException {
    call.ask(
        IndexRequest.retain(keys(message.getKeys()), message.getLifetimeNs(), call.deadlineNs()),
        answer -> call.respond(blocks(answer)));
  }

  void reportLoads(UnaryCall<ReportLoadsRequest, OutcomeResponse> call, ReportLoadsRequest message)
      throws RefusedException {
    Namespaces.Namespace namespace = environment.namespace(message.getNamespaceId());
    LoadReport report =
        new LoadReport(
            Integer.toUnsignedLong(message.getBlocks()),
            message.getTokens(),
            message.getPrefillNs(),
            message.getLoadNs());
    call.ask(
        IndexRequest.reportLoads(namespace.id(), report, call.deadlineNs()),
        answer ->
            call.respond(OutcomeResponse.newBuilder().setOutcome(Wire.outcome(answer)).build()));
  }

  // ---- the rest
  // -------------------------------------------------------------------------------------------------

  void cancel(UnaryCall<CancelRequest, OutcomeResponse> call, CancelRequest message) {
    Call<?> operation = call.connection.operation(message.getOperationId());
    if (operation == null) {
      call.refuse(
          Status.MISS,
          "no call of this connection runs as operation "
              + Long.toUnsignedString(message.getOperationId()));
      return;
    }
    operation.cancelByClient();
    call.respond(OutcomeResponse.newBuilder().setOutcome(Wire.ok()).build());
  }

  private static long administers(UnaryCall<?, ?> call) {
    return call.role() == Role.ADMIN ? Request.STATS_FOR_ADMIN : 0;
  }

  void stats(UnaryCall<StatsRequest, StatsResponse> call, StatsRequest message) {
    call.ask(
        IndexRequest.plain(Verb.STATS, 0, administers(call), call.deadlineNs()),
        answer -> {
          StatsResponse.Builder response = StatsResponse.newBuilder();
          if (answer.status() == Status.OK) {
            response.setOutcome(Wire.ok()).setJson(answer.text());
            for (Counter counter : Counter.values()) {
              response.putCounters(counter.key(), counters.get(counter));
            }
          } else {
            response.setOutcome(Wire.outcome(answer));
          }
          call.respond(response.build());
        });
  }
}
