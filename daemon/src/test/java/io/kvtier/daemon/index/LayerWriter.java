package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/** A client that writes blocks of four layers, each layer by itself. */
final class LayerWriter {
  static final int LAYERS = 4;
  private static final int LAYER_BYTES = IndexHarness.SLOT_BYTES / LAYERS;
  private static final String FORM = "LCNHD:" + LAYERS + "x1:1x1x" + LAYER_BYTES;

  final IndexHarness.Client client;
  private final IndexHarness harness;
  private final List<Integer> regions = new ArrayList<>();

  LayerWriter(IndexHarness harness) throws IOException, ProtocolViolation {
    this.harness = harness;
    client = harness.open();
    String properties = "name=layers\nform=" + FORM;
    assertEquals(Status.OK, client.say(Verb.REGISTER, IndexHarness.SLOT_BYTES, properties));
    for (int layer = 0; layer < LAYERS; layer++) {
      regions.add(client.registerRegion(onHost(layer)));
    }
  }

  /** The text of the namespace, of which its fingerprint is made. */
  static String text() {
    return IndexHarness.SLOT_BYTES + "\nform=" + FORM + "\nname=layers";
  }

  private static String onHost(int layer) {
    return String.join(
        "\n",
        "device=host",
        "layers=1",
        "blocks=1",
        "block_tokens=1",
        "block_layers=" + LAYERS,
        "first_layer=" + layer,
        "part=kv:BD:1,%d:%d,1:1:1:0".formatted(LAYER_BYTES, LAYER_BYTES));
  }

  /** The bytes of the block of a key. */
  static MemorySegment block(long key) {
    MemorySegment block = MemorySegment.ofArray(new byte[IndexHarness.SLOT_BYTES]);
    for (long at = 0; at < block.byteSize(); at += Long.BYTES) {
      block.set(ValueLayout.JAVA_LONG_UNALIGNED, at, key * 0x9E3779B97F4A7C15L + at);
    }
    return block;
  }

  /** Writes a layer of a block. */
  void write(long key, int layer) throws ProtocolViolation {
    IndexHarness.Answer slot = client.reserveShard(regions.get(layer), key, 1);
    assertEquals(Status.OK, slot.first());
    long from = (long) layer * LAYER_BYTES;
    MemorySegment.copy(
        block(key), from, harness.slabs(), slot.places().getFirst() + from, LAYER_BYTES);
    assertEquals(Status.OK, client.commit(slot.ids().getFirst()));
  }
}
