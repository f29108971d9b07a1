package io.kvtier.bench;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.linux.BlockCoder;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.codec.CodecException;
import io.kvtier.tiers.object.CipherKeys;
import io.kvtier.tiers.object.KeySource;
import io.kvtier.tiers.object.ObjectCipher;
import io.kvtier.tiers.object.ObjectHeaderDescriptor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.List;
import java.util.Random;

/**
 * The codecs, the encoding and the cipher on blocks as a cache has them: bf16 values {@code [token,
 * channel]}, normally distributed, each channel with a scale of its own. One thread; a GB is 10^9
 * raw bytes.
 */
final class CodecBench {
  private static final int CHANNELS = 1024;
  private static final int BLOCK_BYTES = 2 << 20;
  private static final int BLOCKS = 8;
  private static final String[] CODECS = {"zstd", "planes"};

  /** Granules of 16 tokens and 128 elements. */
  private static final BlockEncoding EXACT = BlockEncoding.of("exact bf16 4096", BLOCK_BYTES);

  private CodecBench() {}

  static void run(Report report, boolean quick) throws Exception {
    ObjectCipher cipher = cipher();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment raw = arena.allocate((long) BLOCKS * BLOCK_BYTES, 4096);
      fill(raw);
      MemorySegment back = arena.allocate(raw.byteSize(), 4096);
      Rounds measured =
          Rounds.measure(
              quick ? 1 : 3,
              quick ? 2 : 7,
              into -> {
                pass(into, raw, back);
                exactPass(into, raw, back);
                cipherPass(into, cipher, raw, back);
              });
      for (String codec : CODECS) {
        String row = "codec_" + codec + "_";
        report.add(new Row(row + "ratio", measured.median(row + "ratio"), "x", "not encoded", 1));
        report.add(measured.row(row + "encode_gbps", "GB/s", "memcpy_gbps"));
        report.add(measured.row(row + "decode_gbps", "GB/s", "memcpy_gbps"));
      }
      double ratio = EXACT.rawBytes() / (double) EXACT.encodedBytes();
      report.add(new Row("encoding_exact_ratio", ratio, "x", "not encoded", 1));
      report.add(measured.row("encoding_exact_encode_gbps", "GB/s", "memcpy_gbps"));
      report.add(measured.row("encoding_exact_decode_gbps", "GB/s", "memcpy_gbps"));
      report.add(measured.row("cipher_encrypt_gbps", "GB/s", "memcpy_gbps"));
      report.add(measured.row("cipher_decrypt_gbps", "GB/s", "memcpy_gbps"));
    }
  }

  private static void pass(Rounds into, MemorySegment raw, MemorySegment back)
      throws CodecException {
    long started = System.nanoTime();
    back.copyFrom(raw);
    into.add("memcpy_gbps", raw.byteSize() / (double) (System.nanoTime() - started));
    for (String name : CODECS) {
      BlockCodec codec = BlockCodecs.create(name);
      long bound = codec.boundBytes(BLOCK_BYTES);
      int[] lengths = new int[BLOCKS];
      try (Arena targets = Arena.ofConfined()) {
        MemorySegment encoded = targets.allocate(bound * BLOCKS).fill((byte) 0);
        long total = 0;
        started = System.nanoTime();
        for (int i = 0; i < BLOCKS; i++) {
          lengths[i] = codec.encode(block(raw, i), encoded.asSlice(i * bound, bound));
          total += lengths[i];
        }
        long encodeNs = System.nanoTime() - started;
        started = System.nanoTime();
        for (int i = 0; i < BLOCKS; i++) {
          codec.decode(encoded.asSlice(i * bound, lengths[i]), block(back, i));
        }
        long decodeNs = System.nanoTime() - started;
        if (raw.mismatch(back) != -1) {
          throw new IllegalStateException(name + " decodes to something else");
        }
        into.add("codec_" + name + "_ratio", raw.byteSize() / (double) total);
        into.add("codec_" + name + "_encode_gbps", raw.byteSize() / (double) encodeNs);
        into.add("codec_" + name + "_decode_gbps", raw.byteSize() / (double) decodeNs);
      }
    }
  }

  /** The encoding that clients use: with the checksums of what is stored and of what is decoded. */
  private static void exactPass(Rounds into, MemorySegment raw, MemorySegment back) {
    BlockCoder coder = BlockCoder.OF_THIS_MACHINE;
    long bytes = EXACT.encodedBytes();
    try (Arena targets = Arena.ofConfined()) {
      MemorySegment encoded = targets.allocate(bytes * BLOCKS, 4096).fill((byte) 0);
      long started = System.nanoTime();
      for (int i = 0; i < BLOCKS; i++) {
        if (coder.encode(EXACT, block(raw, i), encoded.asSlice(i * bytes, bytes))
            == BlockCoder.NONE) {
          throw new IllegalStateException("block " + i + " does not fit");
        }
      }
      long encodeNs = System.nanoTime() - started;
      back.fill((byte) 0);
      started = System.nanoTime();
      for (int i = 0; i < BLOCKS; i++) {
        var _ = coder.decode(EXACT, encoded.asSlice(i * bytes, bytes), block(back, i));
      }
      long decodeNs = System.nanoTime() - started;
      if (raw.mismatch(back) != -1) {
        throw new IllegalStateException("exact decodes to something else");
      }
      into.add("encoding_exact_encode_gbps", raw.byteSize() / (double) encodeNs);
      into.add("encoding_exact_decode_gbps", raw.byteSize() / (double) decodeNs);
    }
  }

  private static ObjectCipher cipher() throws IOException {
    Path key = Files.createTempFile("kvtier-bench", ".key");
    try {
      byte[] random = new byte[32];
      new SecureRandom().nextBytes(random);
      Files.write(key, random);
      return new ObjectCipher(CipherKeys.load(new KeySource.KeyFile(key), List.of()), false);
    } finally {
      Files.delete(key);
    }
  }

  private static void cipherPass(
      Rounds into, ObjectCipher cipher, MemorySegment raw, MemorySegment back) {
    byte[] header = new byte[ObjectHeaderDescriptor.headerBytes(1)];
    byte[][] nonces = new byte[BLOCKS][];
    long stride = BLOCK_BYTES + ObjectCipher.TAG_BYTES;
    try (Arena targets = Arena.ofConfined()) {
      MemorySegment encrypted = targets.allocate(stride * BLOCKS).fill((byte) 0);
      long started = System.nanoTime();
      for (int i = 0; i < BLOCKS; i++) {
        nonces[i] = cipher.nextNonce();
        cipher.encrypt(nonces[i], header, block(raw, i), encrypted.asSlice(i * stride, stride));
      }
      long encryptNs = System.nanoTime() - started;
      back.fill((byte) 0);
      started = System.nanoTime();
      for (int i = 0; i < BLOCKS; i++) {
        if (!cipher.decrypt(
            cipher.writingKey(),
            nonces[i],
            header,
            encrypted.asSlice(i * stride, stride),
            block(back, i))) {
          throw new IllegalStateException("a block can't be decrypted");
        }
      }
      long decryptNs = System.nanoTime() - started;
      if (raw.mismatch(back) != -1) {
        throw new IllegalStateException("the cipher decrypts to something else");
      }
      into.add("cipher_encrypt_gbps", raw.byteSize() / (double) encryptNs);
      into.add("cipher_decrypt_gbps", raw.byteSize() / (double) decryptNs);
    }
  }

  private static MemorySegment block(MemorySegment blocks, int index) {
    return blocks.asSlice((long) index * BLOCK_BYTES, BLOCK_BYTES);
  }

  private static void fill(MemorySegment raw) {
    Random random = new Random(1);
    double[] scales = new double[CHANNELS];
    for (int channel = 0; channel < CHANNELS; channel++) {
      scales[channel] = Math.exp(random.nextGaussian());
    }
    for (long i = 0; i < raw.byteSize() / 2; i++) {
      double value = random.nextGaussian() * scales[(int) (i % CHANNELS)];
      raw.setAtIndex(
          ValueLayout.JAVA_SHORT, i, (short) (Float.floatToRawIntBits((float) value) >>> 16));
    }
  }
}
