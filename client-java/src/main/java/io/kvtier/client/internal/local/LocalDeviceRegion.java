package io.kvtier.client.internal.local;

import io.kvtier.client.BatchResult;
import io.kvtier.client.DeviceRegion;
import io.kvtier.client.Keys;
import io.kvtier.client.Options;
import io.kvtier.client.RegionSpec;
import io.kvtier.client.internal.session.Session;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.util.concurrent.CompletableFuture;

/** A device region of one session. Thread-safe. */
final class LocalDeviceRegion implements DeviceRegion {
  private final Regions regions;
  private final Registrar namespace;
  private final Session session;
  private final int id;
  private final RegionSpec spec;

  LocalDeviceRegion(
      Regions regions, Registrar namespace, Session session, int id, RegionSpec spec) {
    this.regions = regions;
    this.namespace = namespace;
    this.session = session;
    this.id = id;
    this.spec = spec;
  }

  @Override
  public RegionSpec spec() {
    return spec;
  }

  @Override
  public CompletableFuture<BatchResult> put(Keys keys, Selection blocks, Options options) {
    return copy(Verb.OFFLOAD, 0, keys, blocks, options);
  }

  @Override
  public CompletableFuture<BatchResult> get(Keys keys, Selection blocks, Options options) {
    return copy(Verb.ONBOARD, 0, keys, blocks, options);
  }

  @Override
  public CompletableFuture<BatchResult> advertise(
      Keys keys, int[] numbers, int rank, Options options) {
    return copy(Verb.ADVERTISE, rank, keys, Selection.of(numbers), options);
  }

  @Override
  public CompletableFuture<BatchResult> revoke(Keys keys, Options options) {
    return say(Verb.REVOKE, id, keys, Selection.of(), options);
  }

  private CompletableFuture<BatchResult> copy(
      Verb verb, long argument, Keys keys, Selection blocks, Options options) {
    if (blocks.numbers().length != keys.count()) {
      throw new IllegalArgumentException(
          keys.count() + " keys, but " + blocks.numbers().length + " numbers of blocks");
    }
    return say(verb, argument, keys, blocks, options);
  }

  private CompletableFuture<BatchResult> say(
      Verb verb, long argument, Keys keys, Selection blocks, Options options) {
    // Another future than the operation's own, which asks the daemon to cancel and is done at once.
    return regions
        .submitter()
        .async(
            listener -> regions.blocks(verb, argument, this, keys, blocks, options, listener),
            Answers::batch)
        .copy();
  }

  @Override
  public Status close() {
    return regions.unregister(session, id);
  }

  Registrar namespace() {
    return namespace;
  }

  Session session() {
    return session;
  }

  @Override
  public int id() {
    return id;
  }
}
