package io.kvtier.bench.soak;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;

/**
 * A namespace whose keys and bytes follow from a seed, as in {@code checks/soak/content.py}: so any
 * process can check the blocks that another process put.
 *
 * <p>Each page of 4 KiB of a block is a window into one buffer, at an offset made from the block's
 * key and the page's number.
 */
final class Space {
  private static final int PAGE_BYTES = 4096;
  private static final int BASE_BYTES = 1 << 20;
  private static final int DIGEST_BYTES = 32;

  private final String seed;
  private final String name;
  private final int blockBytes;
  private final byte[] base;
  private final MessageDigest digest;

  Space(String seed, String name, int blockBytes) {
    this.seed = seed;
    this.name = name;
    this.blockBytes = blockBytes;
    try {
      digest = MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
    base = new byte[BASE_BYTES + PAGE_BYTES];
    for (int at = 0; at < base.length; at += DIGEST_BYTES) {
      byte[] piece = digest.digest((blockBytes + "/" + at / DIGEST_BYTES).getBytes(UTF_8));
      System.arraycopy(piece, 0, base, at, DIGEST_BYTES);
    }
  }

  String name() {
    return name;
  }

  int blockBytes() {
    return blockBytes;
  }

  byte[] key(int number) {
    return digest.digest(("soak/" + seed + "/" + name + "/" + number).getBytes(UTF_8));
  }

  /** The bytes of a key's block. */
  byte[] block(byte[] key) {
    byte[] block = new byte[blockBytes];
    byte[] offsets = new byte[0];
    for (int page = 0; page * PAGE_BYTES < blockBytes; page++) {
      int place = page % (DIGEST_BYTES / 4) * 4;
      if (place == 0) {
        digest.update(key);
        int part = page / (DIGEST_BYTES / 4);
        digest.update((byte) part);
        digest.update((byte) (part >> 8));
        offsets = digest.digest();
      }
      int offset =
          (offsets[place] & 0xff)
              | ((offsets[place + 1] & 0xff) << 8)
              | ((offsets[place + 2] & 0x0f) << 16);
      int at = page * PAGE_BYTES;
      System.arraycopy(base, offset, block, at, Math.min(PAGE_BYTES, blockBytes - at));
    }
    return block;
  }

  /** How many bytes differ from those of a key's block. */
  int wrongBytes(byte[] key, byte[] read) {
    byte[] expected = block(key);
    if (Arrays.equals(expected, read)) {
      return 0;
    }
    int wrong = 0;
    for (int i = 0; i < blockBytes; i++) {
      if (expected[i] != read[i]) {
        wrong++;
      }
    }
    return wrong;
  }
}
