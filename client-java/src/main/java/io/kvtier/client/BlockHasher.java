package io.kvtier.client;

import java.lang.foreign.MemorySegment;
import java.security.DigestException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Makes block keys of tokens: chained hashes, equal to those that vLLM makes with {@code
 * sha256_cbor}. A block's hash is SHA-256 over the canonical CBOR of {@code [hash of the parent
 * block, token ids, extra keys or null]}; the first block's parent is a hash of the seed. Only
 * whole blocks have hashes. Confined to one thread.
 */
public final class BlockHasher {
  /** The length of a hash. */
  public static final int HASH_BYTES = 32;

  private final int blockTokens;
  private final byte[] noneHash;
  private final MessageDigest digest = sha256();
  private final Cbor cbor = new Cbor();

  private BlockHasher(int blockTokens, byte[] noneHash) {
    if (blockTokens < 1) {
      throw new IllegalArgumentException("a block has at least one token, not " + blockTokens);
    }
    if (noneHash.length != HASH_BYTES) {
      throw new IllegalArgumentException("a hash has 32 bytes, not " + noneHash.length);
    }
    this.blockTokens = blockTokens;
    this.noneHash = noneHash.clone();
  }

  /** With the seed that vLLM takes from the environment variable {@code PYTHONHASHSEED}. */
  public static BlockHasher withSeed(int blockTokens, String seed) {
    return new BlockHasher(blockTokens, sha256().digest(new Cbor().text(seed).toByteArray()));
  }

  /** With a random start, which no other process has. */
  public static BlockHasher withRandomStart(int blockTokens) {
    byte[] start = new byte[HASH_BYTES];
    new SecureRandom().nextBytes(start);
    return new BlockHasher(blockTokens, start);
  }

  /** With a given parent of first blocks. */
  public static BlockHasher withNoneHash(int blockTokens, byte[] noneHash) {
    return new BlockHasher(blockTokens, noneHash);
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }

  /** The tokens of a block. */
  public int blockTokens() {
    return blockTokens;
  }

  /** What stands for the parent of a first block. */
  public byte[] noneHash() {
    return noneHash.clone();
  }

  /** The keys of all whole blocks of a sequence; a last block that is not full is ignored. */
  public Keys hash(int[] tokens) {
    return hash(tokens, List.of());
  }

  /**
   * The keys of all whole blocks of a sequence.
   *
   * @param tokens not negative
   * @param extraKeys for each block what else tells it apart (adapter, cache salt, images), or
   *     null; blocks beyond the list's end have none
   */
  public Keys hash(int[] tokens, List<? extends @Nullable List<?>> extraKeys) {
    long[] wide = new long[tokens.length];
    for (int i = 0; i < tokens.length; i++) {
      if (tokens[i] < 0) {
        throw new IllegalArgumentException("token " + i + " is negative: " + tokens[i]);
      }
      wide[i] = tokens[i];
    }
    return hash(wide, extraKeys);
  }

  /** As {@link #hash(int[], List)}, with tokens of 64 bits without a sign. */
  public Keys hash(long[] tokens, List<? extends @Nullable List<?>> extraKeys) {
    int blocks = tokens.length / blockTokens;
    byte[] hashes = new byte[Math.multiplyExact(blocks, HASH_BYTES)];
    byte[] parent = noneHash.clone();
    for (int b = 0; b < blocks; b++) {
      List<?> extra = b < extraKeys.size() ? extraKeys.get(b) : null;
      next(parent, tokens, b * blockTokens, extra);
      System.arraycopy(parent, 0, hashes, b * HASH_BYTES, HASH_BYTES);
    }
    return Keys.wrap(MemorySegment.ofArray(hashes), HASH_BYTES);
  }

  /** The key of one block after another, or after {@link #noneHash}. */
  public byte[] next(byte[] parent, int[] block, @Nullable List<?> extraKeys) {
    if (block.length != blockTokens) {
      throw new IllegalArgumentException(
          "a block has " + blockTokens + " tokens, not " + block.length);
    }
    long[] wide = new long[blockTokens];
    for (int i = 0; i < blockTokens; i++) {
      wide[i] = block[i];
    }
    byte[] hash = parent.clone();
    next(hash, wide, 0, extraKeys);
    return hash;
  }

  private void next(byte[] hash, long[] tokens, int from, @Nullable List<?> extraKeys) {
    cbor.reset().array(3).bytes(hash).array(blockTokens);
    for (int i = 0; i < blockTokens; i++) {
      cbor.unsigned(tokens[from + i]);
    }
    cbor.value(extraKeys);
    digest.update(cbor.buffer(), 0, cbor.length());
    try {
      int written = digest.digest(hash, 0, HASH_BYTES);
      if (written != HASH_BYTES) {
        throw new IllegalStateException("SHA-256 has " + written + " bytes");
      }
    } catch (DigestException e) {
      throw new IllegalArgumentException("a hash has 32 bytes, not " + hash.length, e);
    }
  }
}
