package io.kvtier.layout;

import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/** Computes the place of each byte of a block one by one, to check {@link KvLayout}. */
final class LayoutOracle {
  private LayoutOracle() {}

  /** Maps the offset of each byte in the block to its address on the device. */
  static Map<Long, Long> bytes(
      KvLayout layout, int block, IndexRange layers, IndexRange heads, long[] tensorAddresses) {
    Map<Long, Long> places = new HashMap<>();
    long partStart = 0;
    int firstTensor = 0;
    for (KvPart part : layout.parts()) {
      TensorShape shape = part.shape();
      partStart = (partStart + 15) / 16 * 16;
      boolean hasLayers = shape.has(KvAxis.LAYER);
      boolean hasHeads = shape.extent(KvAxis.HEAD) > 1;
      int tokens = shape.has(KvAxis.TOKEN) ? layout.blockTokens() : 1;
      Map<KvAxis, Integer> blockExtents =
          Map.of(
              KvAxis.LAYER, layout.blockLayers(),
              KvAxis.PLANE, shape.extent(KvAxis.PLANE),
              KvAxis.TOKEN, tokens,
              KvAxis.HEAD, part.blockHeads());
      for (int layer = layers.from(); layer < layers.to(); layer++) {
        for (int plane = 0; plane < shape.extent(KvAxis.PLANE); plane++) {
          for (int token = 0; token < tokens; token++) {
            for (int head = 0; head < shape.extent(KvAxis.HEAD); head++) {
              if (hasHeads && (head < heads.from() || head >= heads.to())) {
                continue;
              }
              Map<KvAxis, Integer> inTensor = new HashMap<>();
              inTensor.put(KvAxis.LAYER, layer);
              inTensor.put(KvAxis.PLANE, plane);
              inTensor.put(KvAxis.HEAD, head);
              int pageTokens =
                  shape.has(KvAxis.BLOCK) && shape.has(KvAxis.TOKEN)
                      ? shape.extent(KvAxis.TOKEN)
                      : layout.blockTokens();
              int tokenOfAll = block * layout.blockTokens() + token;
              inTensor.put(KvAxis.BLOCK, tokenOfAll / pageTokens);
              inTensor.put(
                  KvAxis.TOKEN, shape.has(KvAxis.BLOCK) ? tokenOfAll % pageTokens : tokenOfAll);
              Map<KvAxis, Integer> inBlock =
                  Map.of(
                      KvAxis.LAYER,
                      layout.firstLayer() + layer,
                      KvAxis.PLANE,
                      plane,
                      KvAxis.TOKEN,
                      token,
                      KvAxis.HEAD,
                      part.firstHead() + head);
              long address =
                  tensorAddresses[firstTensor + (hasLayers ? 0 : layer)] + offset(shape, inTensor);
              long cell = 0;
              for (KvAxis axis : layout.order().axes()) {
                cell = cell * at(blockExtents, axis) + at(inBlock, axis);
              }
              for (int i = 0; i < shape.cellBytes(); i++) {
                Long before = places.put(partStart + cell * shape.cellBytes() + i, address + i);
                if (before != null) {
                  throw new AssertionError("two bytes for one offset");
                }
              }
            }
          }
        }
      }
      long cells = 1;
      for (int extent : blockExtents.values()) {
        cells *= extent;
      }
      partStart += cells * shape.cellBytes();
      firstTensor += hasLayers ? 1 : layout.layers();
    }
    return places;
  }

  private static long offset(TensorShape shape, Map<KvAxis, Integer> index) {
    long elements = 0;
    for (int i = 0; i < shape.axes().length(); i++) {
      for (Map.Entry<KvAxis, Integer> entry : index.entrySet()) {
        if (shape.axes().charAt(i) == entry.getKey().letter()) {
          elements += entry.getValue() * shape.strides().get(i);
        }
      }
    }
    return elements * shape.elementBytes();
  }

  private static int at(Map<KvAxis, Integer> map, KvAxis axis) {
    return Objects.requireNonNull(map.get(axis));
  }

  /** The smallest number of runs that cover the bytes in the order of their host offsets. */
  static int fewestRuns(Map<Long, Long> bytes) {
    int runs = 0;
    long nextPlace = -1;
    long nextAddress = -1;
    for (Map.Entry<Long, Long> entry : new TreeMap<>(bytes).entrySet()) {
      runs += entry.getKey() == nextPlace && entry.getValue() == nextAddress ? 0 : 1;
      nextPlace = entry.getKey() + 1;
      nextAddress = entry.getValue() + 1;
    }
    return runs;
  }
}
