package io.kvtier.daemon.simulation;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.GranuleCodec;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.transfer.Checksums;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What is true: the content of every key, which follows from the key, and what was ever accepted.
 */
final class Oracle {
  /** A key of a namespace, as a small number; it is 16 bytes on the wire. */
  record Key(int namespace, int number) {}

  /** The words of blocks that codecs and {@code exact} have something to save of. */
  private static final long FEW_BYTES = 0x0101_0101_0101_0101L;

  /** The words of blocks of bf16 with exponents from 96 to 127, which lose by {@code fp8}. */
  private static final long ANY_VALUES = 0x8fff_8fff_8fff_8fffL;

  private static final long EXPONENT_96 = 0x3000_3000_3000_3000L;

  private final SimulatedEncodings encodings;
  private final Map<Key, byte[]> contents = new HashMap<>();
  private final Map<Key, Integer> checksums = new HashMap<>();
  private final Map<Key, byte[]> encoded = new HashMap<>();
  private final Map<Key, byte[]> withLoss = new HashMap<>();
  final Set<Key> written = new HashSet<>();
  final Set<Key> accepted = new HashSet<>();

  /**
   * Keys that some client asked to delete at some time: whether they are there is anybody's guess.
   */
  final Set<Key> deleted = new HashSet<>();

  /** What had to be on SSD when a FLUSH was answered well. */
  final Set<Key> flushed = new HashSet<>();

  /** Keys whose DELETE was answered, and which nobody has put since. */
  final Set<Key> removed = new HashSet<>();

  /** A client has damaged bytes of its own after a commit. */
  boolean somethingDamaged;

  /** Until when a key is retained, ns, as its client was told; and since when it was told. */
  private final Map<Key, Retained> retained = new HashMap<>();

  /**
   * Keys whose retention some client asked to end: whether they are retained is anybody's guess.
   */
  private final Set<Key> letGo = new HashSet<>();

  private record Retained(long sinceNs, long endNs) {}

  /**
   * Knows nothing yet.
   *
   * @param encodings how the blocks of each namespace may be encoded
   */
  Oracle(SimulatedEncodings encodings) {
    this.encodings = encodings;
  }

  /** How the blocks of each namespace may be encoded. */
  SimulatedEncodings encodings() {
    return encodings;
  }

  /** A client was told that a block is retained. */
  void isRetained(Key key, long sinceNs, long endNs) {
    Retained before = retained.get(key);
    if (before == null || before.endNs < sinceNs) {
      retained.put(key, new Retained(sinceNs, endNs));
    } else {
      retained.put(key, new Retained(before.sinceNs, Math.max(before.endNs, endNs)));
    }
  }

  /** A client asks to end the retention of a key. */
  void letGo(Key key) {
    letGo.add(key);
  }

  /** A new daemon knows of no retention. */
  void forgetRetained() {
    retained.clear();
  }

  /** Whether a key must be found in all of a time. */
  boolean mustBeHere(Key key, long fromNs, long toNs) {
    Retained until = retained.get(key);
    return until != null
        && until.sinceNs <= fromNs
        && toNs < until.endNs
        && !letGo.contains(key)
        && !deleted.contains(key);
  }

  private final Map<Key, Integer> puts = new HashMap<>();

  /** Somebody puts a key, or tries to: it may be there again. */
  void isPut(Key key) {
    puts.merge(key, 1, Integer::sum);
    removed.remove(key);
  }

  int puts(Key key) {
    return puts.getOrDefault(key, 0);
  }

  /** The bytes of a block as they are put. */
  byte[] content(Key key, int bytes) {
    return contents.computeIfAbsent(
        key,
        k -> {
          byte[] content = new byte[bytes];
          long state = (k.namespace * 1_000_003L + k.number) * 0x9E3779B97F4A7C15L + 1;
          MemorySegment words = MemorySegment.ofArray(new long[bytes / 8]);
          for (int i = 0; i < bytes / 8; i++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
            // Every other block can be encoded, and codecs have something to save.
            boolean isPlain = k.number % 2 != 0 || isPlainHalf(k, 8L * i < bytes / 2);
            Words.putLong(words, 8L * i, isPlain ? plain(k, state) : state);
          }
          MemorySegment.copy(words, 0, MemorySegment.ofArray(content), 0, bytes);
          return content;
        });
  }

  private long plain(Key key, long state) {
    return encodings.isLossy(key.namespace)
        ? (state & ANY_VALUES) | EXPONENT_96
        : state & FEW_BYTES;
  }

  /**
   * Whether a half of a block fits its encoded form, although the block does not: one half of every
   * fourth block that may be encoded.
   */
  private boolean isPlainHalf(Key key, boolean isFirst) {
    return encodings.isEncoded(key.namespace)
        && key.number % 4 == 2
        && isFirst == (key.number % 8 == 2);
  }

  /** The bytes of a block in one of its forms, as clients write them; the block must fit. */
  byte[] stored(Key key, int bytes, boolean isEncoded) {
    return isEncoded ? encoded(key, bytes) : content(key, bytes);
  }

  /**
   * All bytes that a block in one of its forms can have. A raw block that does not fit can have
   * parts that came encoded, with a loss.
   */
  List<byte[]> possible(Key key, int bytes, boolean isEncoded) {
    byte[] written = stored(key, bytes, isEncoded);
    return isEncoded || fits(key, bytes)
        ? List.of(written)
        : List.of(written, withLoss(key, bytes));
  }

  /** All bytes that a reader can have of a block that may have been encoded. */
  List<byte[]> decoded(Key key, int bytes) {
    return List.of(content(key, bytes), withLoss(key, bytes));
  }

  /** Whether a block fits its encoded form. */
  boolean fits(Key key, int bytes) {
    return !encodings.isEncoded(key.namespace) || encoded(key, bytes).length > 0;
  }

  /** The bytes of an encoded block; none if the block does not fit. */
  private byte[] encoded(Key key, int bytes) {
    byte[] known = encoded.get(key);
    if (known == null) {
      BlockEncoding encoding = encodings.of(key.namespace, bytes);
      byte[] made = new byte[(int) encoding.encodedBytes()];
      boolean isMade =
          new GranuleCodec(encoding)
              .encode(MemorySegment.ofArray(content(key, bytes)), MemorySegment.ofArray(made));
      known = isMade ? made : new byte[0];
      encoded.put(key, known);
    }
    return known;
  }

  /** A block whose halves were put by two ranks, and lost something if they came encoded. */
  private byte[] withLoss(Key key, int bytes) {
    byte[] known = withLoss.get(key);
    if (known == null) {
      known = content(key, bytes).clone();
      if (encodings.isLossy(key.namespace)) {
        int second = SimulatedRegions.secondHalf(bytes);
        lose(encodings.of(key.namespace, bytes), known, 0, second);
        lose(encodings.of(key.namespace, bytes), known, second, bytes);
      }
      withLoss.put(key, known);
    }
    return known;
  }

  /** Encodes and decodes a half of a block, if the half fits. */
  private static void lose(BlockEncoding encoding, byte[] block, int from, int to) {
    int granules = (to - from) / encoding.rawGranuleBytes();
    if (granules == 0) {
      return;
    }
    GranuleCodec codec = new GranuleCodec(encoding.ofGranules(granules));
    MemorySegment encoded =
        MemorySegment.ofArray(new byte[granules * encoding.encodedGranuleBytes()]);
    MemorySegment half = MemorySegment.ofArray(block).asSlice(from, to - from);
    if (codec.encode(half, encoded) && !codec.decode(encoded, half)) {
      throw new IllegalStateException("a half that was just encoded is damaged");
    }
  }

  /** The checksum of a block in one of its forms, as clients write it. */
  int checksum(Key key, int bytes, boolean isEncoded) {
    return isEncoded
        ? Checksums.of(MemorySegment.ofArray(encoded(key, bytes)))
        : checksum(key, bytes);
  }

  private int checksum(Key key, int bytes) {
    return checksums.computeIfAbsent(
        key, k -> Checksums.of(MemorySegment.ofArray(content(k, bytes))));
  }

  static void writeKey(Key key, MemorySegment target, long offset) {
    Words.putLong(target, offset, key.number * 0x9E3779B97F4A7C15L);
    Words.putLong(target, offset + 8, key.number);
  }
}
