package io.kvtier.bench;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingErrors;
import io.kvtier.layout.encoding.EncodingKind;
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
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.List;

/**
 * The codecs, the encoding and the cipher on blocks as a cache has them. One thread; a GB is 10^9
 * raw bytes, and a ratio is raw bytes by stored bytes.
 */
final class CodecBench {
  private static final String[] CODECS = {"zstd", "planes"};

  /** The bits of an element that are no exponent. They are taken for incompressible. */
  private static final int OTHER_BITS = 8;

  private final KvBlocks blocks;
  private final MemorySegment back;
  private final ObjectCipher cipher;

  private CodecBench(KvBlocks blocks, Arena arena, ObjectCipher cipher) {
    this.blocks = blocks;
    this.back = arena.allocate(blocks.raw().byteSize(), 4096);
    this.cipher = cipher;
  }

  static void run(Report report, boolean quick, KvBlocks blocks, Arena arena) throws Exception {
    new CodecBench(blocks, arena, cipher()).measure(report, quick);
  }

  private void measure(Report report, boolean quick) throws Exception {
    Rounds measured = Rounds.measure(quick ? 1 : 3, quick ? 2 : 7, this::pass);
    for (String codec : CODECS) {
      String row = "codec_" + codec + "_";
      report.add(new Row(row + "ratio", measured.median(row + "ratio"), "x", "not encoded", 1));
      report.add(measured.row(row + "encode_gbps", "GB/s", "memcpy_gbps"));
      report.add(measured.row(row + "decode_gbps", "GB/s", "memcpy_gbps"));
    }
    double bits = blocks.exponentBits();
    double bound = Short.SIZE / (OTHER_BITS + bits);
    report.add(Row.plain("kv_exponent_bits", bits, "bits"));
    for (EncodingKind kind : EncodingKind.values()) {
      String row = row(kind);
      double ratio = measured.median(row + "ratio");
      report.add(
          kind.isLossy()
              ? new Row(row + "ratio", ratio, "x", "not encoded", 1)
              : new Row(row + "ratio", ratio, "x", "entropy of exponents", bound));
      double raw = measured.median(row + "raw");
      report.add(new Row(row + "raw", raw, "blocks", "all blocks", blocks.count()));
      report.add(measured.row(row + "encode_gbps", "GB/s", "memcpy_gbps"));
      report.add(measured.row(row + "decode_gbps", "GB/s", "memcpy_gbps"));
      if (kind.isLossy()) {
        report.add(Row.plain(row + "error", measured.median(row + "error"), "x"));
      }
    }
    report.add(measured.row("cipher_encrypt_gbps", "GB/s", "memcpy_gbps"));
    report.add(measured.row("cipher_decrypt_gbps", "GB/s", "memcpy_gbps"));
  }

  private void pass(Rounds into) throws Exception {
    long started = System.nanoTime();
    back.copyFrom(blocks.raw());
    addRate(into, "memcpy", started, System.nanoTime());
    for (String codec : CODECS) {
      codecPass(into, codec);
    }
    for (EncodingKind kind : EncodingKind.values()) {
      encodingPass(into, kind);
    }
    cipherPass(into);
  }

  private static String row(EncodingKind kind) {
    return "encoding_" + kind.id() + "_";
  }

  private void addRate(Rounds into, String name, long startedNs, long endedNs) {
    into.add(name + "_gbps", blocks.raw().byteSize() / (double) (endedNs - startedNs));
  }

  private void requireEqual(String what) {
    if (blocks.raw().mismatch(back) != -1) {
      throw new IllegalStateException(what + " decodes to something else");
    }
  }

  private void codecPass(Rounds into, String name) throws CodecException {
    BlockCodec codec = BlockCodecs.create(name);
    int blockBytes = blocks.blockBytes();
    long bound = codec.boundBytes(blockBytes);
    int[] lengths = new int[blocks.count()];
    try (Arena targets = Arena.ofConfined()) {
      MemorySegment encoded = targets.allocate(bound * lengths.length).fill((byte) 0);
      long total = 0;
      long started = System.nanoTime();
      for (int i = 0; i < lengths.length; i++) {
        lengths[i] = codec.encode(blocks.block(i), encoded.asSlice(i * bound, bound));
        total += lengths[i];
      }
      addRate(into, "codec_" + name + "_encode", started, System.nanoTime());
      back.fill((byte) 0);
      started = System.nanoTime();
      for (int i = 0; i < lengths.length; i++) {
        codec.decode(encoded.asSlice(i * bound, lengths[i]), target(i));
      }
      addRate(into, "codec_" + name + "_decode", started, System.nanoTime());
      requireEqual(name);
      into.add("codec_" + name + "_ratio", blocks.raw().byteSize() / (double) total);
    }
  }

  /**
   * An encoding, as clients use it: with the checksums of what is stored and of what is decoded. A
   * block that does not fit is copied, as a client does it, with the checksum of what is stored.
   */
  private void encodingPass(Rounds into, EncodingKind kind) {
    BlockCoder coder = BlockCoder.OF_THIS_MACHINE;
    BlockEncoding encoding =
        new BlockEncoding(kind, blocks.encoding().granuleElements(), blocks.encoding().granules());
    String row = row(kind);
    long slotBytes = encoding.rawBytes();
    boolean[] isRaw = new boolean[blocks.count()];
    int rawBlocks = 0;
    try (Arena targets = Arena.ofConfined()) {
      MemorySegment slots = targets.allocate(slotBytes * isRaw.length, 4096).fill((byte) 0);
      long started = System.nanoTime();
      for (int i = 0; i < isRaw.length; i++) {
        MemorySegment slot = slots.asSlice(i * slotBytes, slotBytes);
        if (coder.encode(encoding, blocks.block(i), slot) == BlockCoder.NONE) {
          slot.copyFrom(blocks.block(i));
          isRaw[i] = true;
          rawBlocks++;
        }
      }
      addRate(into, row + "encode", started, System.nanoTime());
      back.fill((byte) 0);
      started = System.nanoTime();
      for (int i = 0; i < isRaw.length; i++) {
        MemorySegment slot = slots.asSlice(i * slotBytes, slotBytes);
        if (isRaw[i]) {
          target(i).copyFrom(slot);
        } else if (coder.decode(encoding, slot, target(i)) == BlockCoder.NONE) {
          throw new IllegalStateException("a block encoded as " + kind.id() + " can't be decoded");
        }
      }
      addRate(into, row + "decode", started, System.nanoTime());
      EncodingErrors errors = EncodingErrors.of(encoding, null);
      if (errors == null) {
        requireEqual(kind.id());
      } else {
        for (int i = 0; i < isRaw.length; i++) {
          if (!isRaw[i]) {
            errors.measure(slots.asSlice(i * slotBytes, encoding.encodedBytes()));
          }
        }
        into.add(row + "error", errors.means().length == 0 ? 0 : errors.means()[0]);
      }
      long stored = (isRaw.length - rawBlocks) * encoding.encodedBytes() + rawBlocks * slotBytes;
      into.add(row + "ratio", blocks.raw().byteSize() / (double) stored);
      into.add(row + "raw", rawBlocks);
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

  private void cipherPass(Rounds into) {
    byte[] header = new byte[ObjectHeaderDescriptor.headerBytes(1)];
    byte[][] nonces = new byte[blocks.count()][];
    long stride = blocks.encoding().rawBytes() + ObjectCipher.TAG_BYTES;
    try (Arena targets = Arena.ofConfined()) {
      MemorySegment encrypted = targets.allocate(stride * nonces.length).fill((byte) 0);
      long started = System.nanoTime();
      for (int i = 0; i < nonces.length; i++) {
        nonces[i] = cipher.nextNonce();
        MemorySegment to = encrypted.asSlice(i * stride, stride);
        cipher.encrypt(nonces[i], header, blocks.block(i), to);
      }
      addRate(into, "cipher_encrypt", started, System.nanoTime());
      back.fill((byte) 0);
      started = System.nanoTime();
      for (int i = 0; i < nonces.length; i++) {
        MemorySegment from = encrypted.asSlice(i * stride, stride);
        if (!cipher.decrypt(cipher.writingKey(), nonces[i], header, from, target(i))) {
          throw new IllegalStateException("a block can't be decrypted");
        }
      }
      addRate(into, "cipher_decrypt", started, System.nanoTime());
      requireEqual("the cipher");
    }
  }

  /** Where a block goes that comes back. */
  private MemorySegment target(int index) {
    return back.asSlice((long) index * blocks.blockBytes(), blocks.blockBytes());
  }
}
