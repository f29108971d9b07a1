package io.kvtier.client.internal.local;

import io.kvtier.client.DeviceRegion;
import io.kvtier.client.Keys;
import io.kvtier.client.Options;
import io.kvtier.client.RegionSpec;
import io.kvtier.client.internal.session.Connector;
import io.kvtier.client.internal.session.Request;
import io.kvtier.client.internal.session.Session;
import io.kvtier.client.internal.session.Wires;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestBody;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Makes requests of operations on device regions. */
final class Regions {
  /** The first region of a GPU takes a while. */
  private static final long REGION_NS = 60_000_000_000L;

  private final Operations operations;
  private final Submitter submitter;

  Regions(Operations operations) {
    this.operations = operations;
    this.submitter = operations.submitter();
  }

  Submitter submitter() {
    return submitter;
  }

  /** Has a region opened, and waits for that. */
  DeviceRegion.Result register(Registrar namespace, RegionSpec spec) {
    Session session = submitter.session(submitter.deadlineNs(Options.DEFAULT), null);
    if (session == null) {
      Connector.Problem problem = submitter.connector().problem();
      return new DeviceRegion.Result(problem.status(), problem.text(), null);
    }
    Registrar.Registration registration = namespace.in(session);
    if (registration.status() != Status.OK) {
      return new DeviceRegion.Result(registration.status(), registration.detail(), null);
    }
    List<RegionSpec.Piece> pieces = spec.pieces();
    int firstPassed = session.wires().nextPassed(pieces.size());
    byte[] text = spec.text(firstPassed);
    DeviceRegion.Result refused = pass(session.wires(), pieces, firstPassed);
    if (refused != null) {
      return refused;
    }
    Request request = new Request(Verb.REGISTER_REGION, System.nanoTime() + REGION_NS);
    request.namespaceId = registration.id();
    request.text = text;
    request.count = text.length;
    return submitter.await(
        submitter.submitOne(session, request, null),
        answer ->
            new DeviceRegion.Result(
                answer.status(),
                answer.detail(),
                answer.status() == Status.OK
                    ? new LocalDeviceRegion(this, namespace, session, (int) answer.value(), spec)
                    : null));
  }

  /** Gives the daemon the descriptors that it opens memory by; null when it has all. */
  private static DeviceRegion.@Nullable Result pass(
      Wires wires, List<RegionSpec.Piece> pieces, int first) {
    try {
      for (int i = 0; i < pieces.size(); i++) {
        Status status = wires.pass(first + i, pieces.get(i).descriptor());
        if (status != Status.OK) {
          String why = "piece " + i + " of the memory was not taken: " + status.meaning();
          return new DeviceRegion.Result(status, why, null);
        }
      }
      return null;
    } catch (IOException e) {
      String why = "the memory was not passed: " + e.getMessage();
      return new DeviceRegion.Result(Status.UNAVAILABLE, why, null);
    }
  }

  /**
   * An operation on blocks of a region.
   *
   * @param argument the number that goes with the verb
   */
  Operation blocks(
      Verb verb,
      long argument,
      LocalDeviceRegion region,
      Keys keys,
      DeviceRegion.Selection blocks,
      Options options,
      Consumer<Operation> whenDone) {
    Session session = region.session();
    int count = keys.count();
    if (session != submitter.connector().current()) {
      String detail = "the session ended; register the region again";
      return Submitter.local(verb, count, Status.UNAVAILABLE, detail, whenDone);
    }
    if (count == 0) {
      return Submitter.nothing(verb, whenDone);
    }
    Request request = new Request(verb, submitter.deadlineNs(options));
    request.flags = verb == Verb.OFFLOAD ? Records.importanceFlags(options.importance()) : 0;
    request.priority = options.priority().code();
    request.namespaceId = region.namespace().in(session).id();
    request.group = options.group();
    request.keys = keys;
    request.region = region.id();
    request.firstLayer = blocks.firstLayer();
    request.endLayer = blocks.endLayer();
    request.event = blocks.event();
    request.argument = argument;
    if (verb.body() == RequestBody.KEYS_AND_BLOCKS) {
      request.blocks = blocks.numbers();
    }
    return operations.submitKeys(session, request, keys, options, whenDone);
  }

  /** Has the daemon close a region, and waits for that. */
  Status unregister(Session session, int region) {
    Request request = new Request(Verb.UNREGISTER_REGION, System.nanoTime() + REGION_NS);
    request.argument = region;
    return submitter.await(submitter.submitOne(session, request, null), Operation::status);
  }
}
