package io.kvtier.layout;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Ranks of one engine fill blocks, and ranks of another engine load them. */
final class ReshardingTest {
  private static final int LAYERS = 4;
  private static final int DIM = 3;
  private static final int TOKENS = 16;
  private static final int BLOCKS = 4;
  private static final BlockOrder PLANES_FIRST = BlockOrder.parse("CLND");

  /** The heads of a model. */
  enum Model {
    GQA(8),
    MLA(1);

    final int heads;

    Model(int heads) {
      this.heads = heads;
    }
  }

  /** The tensors of a layer. */
  private enum Tensors {
    HEAD_FIRST,
    TOKEN_FIRST,
    /** The keys in one tensor, and the values in another one. */
    APART
  }

  /** An engine: how it cuts the model, and how its tensors are laid out. */
  private record Engine(int tp, int pp, Tensors tensors, int pageTokens, BlockOrder order) {
    List<KvLayout> ranks(Model model) {
      List<KvLayout> ranks = new ArrayList<>();
      for (int stage = 0; stage < pp; stage++) {
        for (int rank = 0; rank < tp; rank++) {
          ranks.add(rank(model, stage, rank));
        }
      }
      return ranks;
    }

    private KvLayout rank(Model model, int stage, int rank) {
      int heads = Math.max(1, model.heads / tp);
      int firstHead = rank * model.heads / tp;
      long pages = (long) BLOCKS * TOKENS / pageTokens;
      int planes = model == Model.MLA ? 1 : 2;
      TensorShape shape =
          switch (tensors) {
            case HEAD_FIRST -> contiguous("BCHND", pages, planes, heads, pageTokens, DIM);
            case TOKEN_FIRST -> contiguous("CBNHD", planes, pages, pageTokens, heads, DIM);
            case APART -> contiguous("BNHD", pages, pageTokens, heads, DIM);
          };
      int parts = tensors == Tensors.APART ? planes : 1;
      return new KvLayout(
          LAYERS / pp,
          BLOCKS,
          TOKENS,
          order,
          Collections.nCopies(parts, new KvPart("kv", shape, model.heads, firstHead)),
          LAYERS,
          stage * LAYERS / pp);
    }
  }

  private static TensorShape contiguous(String axes, long... extents) {
    List<Long> sizes = new ArrayList<>();
    List<Long> strides = new ArrayList<>();
    long stride = 1;
    for (int i = extents.length - 1; i >= 0; i--) {
      sizes.addFirst(extents[i]);
      strides.addFirst(stride);
      stride *= extents[i];
    }
    return new TensorShape(axes, sizes, strides, 1);
  }

  private static List<Engine> engines(BlockOrder order) {
    List<Engine> all = new ArrayList<>();
    for (int tp : new int[] {1, 2, 4, 8}) {
      for (int pp : new int[] {1, 2}) {
        for (Tensors tensors : Tensors.values()) {
          for (int pageTokens : new int[] {16, 32}) {
            // Keys before values, and layers inside: only there tensors apart make the same block.
            if (tensors != Tensors.APART || order.equals(PLANES_FIRST)) {
              all.add(new Engine(tp, pp, tensors, pageTokens, order));
            }
          }
        }
      }
    }
    return all;
  }

  /** The byte of one element, whichever rank of whichever engine has it. */
  private static byte element(int block, int layer, int plane, int token, int head, int dim) {
    return (byte)
        new Random(((((block * 9L + layer) * 9 + plane) * 99 + token) * 9 + head) * 9 + dim)
            .nextInt();
  }

  /** A rank's tensor, with the elements of its shard at the engine's own places. */
  private static byte[] tensor(KvLayout rank, int number) {
    int layer = number % rank.layers();
    int plane = number / rank.layers();
    TensorShape shape = rank.parts().getFirst().shape();
    Shard shard = rank.shard();
    byte[] bytes = new byte[Math.toIntExact(shape.spanBytes())];
    int pageTokens = shape.extent(KvAxis.TOKEN);
    for (int i = 0; i < bytes.length; i++) {
      Map<KvAxis, Integer> at = new EnumMap<>(KvAxis.class);
      long rest = i;
      for (int axis = 0; axis < shape.axes().length(); axis++) {
        at.put(
            KvAxis.of(shape.axes().charAt(axis), shape.axes()),
            (int) (rest / shape.strides().get(axis)));
        rest %= shape.strides().get(axis);
      }
      int token = at.getOrDefault(KvAxis.BLOCK, 0) * pageTokens + at.getOrDefault(KvAxis.TOKEN, 0);
      bytes[i] =
          element(
              token / TOKENS,
              shard.layers().from() + layer,
              plane + at.getOrDefault(KvAxis.PLANE, 0),
              token % TOKENS,
              shard.heads().from() + at.getOrDefault(KvAxis.HEAD, 0),
              at.getOrDefault(KvAxis.DIM, 0));
    }
    return bytes;
  }

  /** Copies blocks between the tensors of a rank and the host; the runs have array offsets. */
  private static void copy(KvLayout rank, byte[][] tensors, byte[][] host, boolean isStore) {
    long[] addresses = new long[tensors.length];
    for (int i = 0; i < tensors.length; i++) {
      addresses[i] = (long) i << 32;
    }
    for (int block = 0; block < BLOCKS; block++) {
      Runs entries = new Runs();
      rank.addRuns(
          block,
          IndexRange.all(rank.layers()),
          IndexRange.all(rank.heads()),
          addresses,
          0,
          entries);
      Runs runs = Layouts.expanded(entries);
      for (int i = 0; i < runs.count(); i++) {
        byte[] tensor = tensors[(int) (runs.deviceAddress(i) >>> 32)];
        int device = (int) runs.deviceAddress(i);
        int at = (int) runs.hostAddress(i);
        if (isStore) {
          System.arraycopy(tensor, device, host[block], at, runs.bytes(i));
        } else {
          System.arraycopy(host[block], at, tensor, device, runs.bytes(i));
        }
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"GQA, LCND, 32", "GQA, CLND, 48", "MLA, LCND, 32", "MLA, CLND, 48"})
  void everyPairOfEngines_readsTheBytesThatTheOtherOneWrote(Model model, String order, int count) {
    List<Engine> engines = engines(BlockOrder.parse(order));
    assertEquals(count, engines.size());
    for (Engine writer : engines) {
      byte[][] host = new byte[BLOCKS][writer.ranks(model).getFirst().blockBytes()];
      for (KvLayout rank : writer.ranks(model)) {
        byte[][] tensors = new byte[rank.tensorCount()][];
        for (int number = 0; number < tensors.length; number++) {
          tensors[number] = tensor(rank, number);
        }
        copy(rank, tensors, host, true);
      }
      for (Engine reader : engines) {
        for (KvLayout rank : reader.ranks(model)) {
          assertEquals(writer.ranks(model).getFirst().blockForm(), rank.blockForm());
          byte[][] tensors =
              new byte[rank.tensorCount()][(int) rank.parts().getFirst().shape().spanBytes()];
          copy(rank, tensors, host, false);
          for (int number = 0; number < tensors.length; number++) {
            assertArrayEquals(tensor(rank, number), tensors[number], writer + " to " + reader);
          }
        }
      }
    }
  }

  @Test
  void shardsOfAnEngine_coverTheBlockOnce() {
    for (Engine engine : engines(PLANES_FIRST)) {
      int[][] covered = new int[LAYERS][Model.GQA.heads];
      for (KvLayout rank : engine.ranks(Model.GQA)) {
        Shard shard = rank.shard();
        assertEquals(engine.tp == 1 && engine.pp == 1, shard.isWhole());
        for (int layer = shard.layers().from(); layer < shard.layers().to(); layer++) {
          for (int head = shard.heads().from(); head < shard.heads().to(); head++) {
            covered[layer][head]++;
          }
        }
      }
      for (int[] layer : covered) {
        for (int head : layer) {
          assertEquals(1, head);
        }
      }
    }
  }

  private static String refusal(int layers, int firstLayer, int blocks, TensorShape shape) {
    KvPart part = KvPart.of("kv", shape);
    return String.valueOf(
        assertThrows(
                IllegalArgumentException.class,
                () ->
                    new KvLayout(
                        layers, blocks, TOKENS, BlockOrder.LCND, List.of(part), 4, firstLayer))
            .getMessage());
  }

  @Test
  void shardOutsideOfTheBlock_isRefused() {
    TensorShape shape = contiguous("BNHD", 2, TOKENS, 2, DIM);
    assertEquals("layers 3 to 5 are not all in a block of 4 layers", refusal(2, 3, 2, shape));
    assertEquals("layers -1 to 1 are not all in a block of 4 layers", refusal(2, -1, 2, shape));
  }

  @Test
  void pageThatIsNotSeveralBlocks_isRefused() {
    assertTrue(
        refusal(2, 0, 2, contiguous("BNHD", 2, 24, 2, DIM))
            .contains("extent 24 of axis 'N' of part 'kv': expected 16"));
    assertTrue(
        refusal(2, 0, 3, contiguous("BNHD", 2, 32, 2, DIM))
            .contains("3 blocks: expected a multiple of 2"));
  }

  @Test
  void partsWithDifferentHeads_areRefused() {
    KvPart keys = new KvPart("kv", contiguous("BNHD", 2, TOKENS, 2, DIM), 4, 0);
    KvPart scales = new KvPart("scales", contiguous("BNH", 2, TOKENS, 2), 4, 2);
    IllegalArgumentException refused =
        assertThrows(
            IllegalArgumentException.class,
            () -> new KvLayout(1, 2, TOKENS, BlockOrder.LCND, List.of(keys, scales)));
    assertTrue(String.valueOf(refused.getMessage()).contains("'kv' and 'scales'"));
  }
}
