package io.kvtier.daemon.simulation;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.GranuleCodec;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.transfer.Checksums;
import java.lang.foreign.MemorySegment;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * What is true: the content of every key, which follows from the key, and what was ever accepted.
 */
final class Oracle {
  /** The property of namespaces whose blocks may be encoded. */
  static final String ENCODING = "exact bf16 4096";

  /** A key of a namespace, as a small number; it is 16 bytes on the wire. */
  record Key(int namespace, int number) {}

  /** The granules of {@link #ENCODING}, which are the heads of blocks, too. */
  static final int GRANULE_BYTES = 4096;

  private final BitSet mayBeEncoded;
  private final Map<Key, byte[]> contents = new HashMap<>();
  private final Map<Key, Integer> checksums = new HashMap<>();
  private final Map<Key, byte[]> encoded = new HashMap<>();
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
   * @param mayBeEncoded the namespaces whose blocks may be encoded
   */
  Oracle(BitSet mayBeEncoded) {
    this.mayBeEncoded = mayBeEncoded;
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
            // Every other block has few different bytes, for codecs to work on.
            boolean isPlain = k.number % 2 != 0 || isPlainHalf(k, 8L * i < bytes / 2);
            Words.putLong(words, 8L * i, isPlain ? state & 0x0101_0101_0101_0101L : state);
          }
          MemorySegment.copy(words, 0, MemorySegment.ofArray(content), 0, bytes);
          return content;
        });
  }

  /**
   * Whether a half of a block fits its encoded form, although the block does not: one half of every
   * fourth block that may be encoded.
   */
  private boolean isPlainHalf(Key key, boolean isFirst) {
    return mayBeEncoded.get(key.namespace)
        && key.number % 4 == 2
        && isFirst == (key.number % 8 == 2);
  }

  /** The bytes of a block in one of its forms; the block must fit. */
  byte[] stored(Key key, int bytes, boolean isEncoded) {
    return isEncoded ? encoded(key, bytes) : content(key, bytes);
  }

  /** Whether a block fits its encoded form: those with few different bytes do. */
  boolean fits(Key key, int bytes) {
    return encoded(key, bytes).length > 0;
  }

  /** The bytes of an encoded block; none if the block does not fit. */
  private byte[] encoded(Key key, int bytes) {
    byte[] known = encoded.get(key);
    if (known == null) {
      BlockEncoding encoding = BlockEncoding.of(ENCODING, bytes);
      byte[] made = new byte[(int) encoding.encodedBytes()];
      boolean isMade =
          new GranuleCodec(encoding)
              .encode(MemorySegment.ofArray(content(key, bytes)), MemorySegment.ofArray(made));
      known = isMade ? made : new byte[0];
      encoded.put(key, known);
    }
    return known;
  }

  /** The checksum of a block in one of its forms. */
  int checksum(Key key, int bytes, boolean isEncoded) {
    return isEncoded
        ? Checksums.of(MemorySegment.ofArray(encoded(key, bytes)))
        : checksum(key, bytes);
  }

  int checksum(Key key, int bytes) {
    return checksums.computeIfAbsent(
        key, k -> Checksums.of(MemorySegment.ofArray(content(k, bytes))));
  }

  static void writeKey(Key key, MemorySegment target, long offset) {
    Words.putLong(target, offset, key.number * 0x9E3779B97F4A7C15L);
    Words.putLong(target, offset + 8, key.number);
  }
}
