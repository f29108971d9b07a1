package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.transfer.Buffers;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;

/** Encrypted blocks come back bit by bit, by the right key; whatever was changed is found. */
final class ObjectCipherProperties {
  private static final String[] CODECS = {"none", "zstd", "planes"};
  private static final int HEADER_BYTES = ObjectHeaderDescriptor.headerBytes(1);

  private static Transfer transfer(Arena arena, int length) {
    Transfer transfer = new Transfer(0);
    transfer.keyBytes = 32;
    transfer.key[5] = 7;
    transfer.namespaceHigh = 1;
    transfer.namespaceLow = 2;
    transfer.length = length;
    transfer.slab = arena.allocate(length);
    return transfer;
  }

  /** Noise, or what a codec makes something of. */
  private static Transfer block(Arena arena, int length, boolean noise, long seed) {
    Transfer transfer = transfer(arena, length);
    byte[] bytes = new byte[length];
    new Random(seed).nextBytes(bytes);
    for (int i = 0; i < length && !noise; i++) {
      bytes[i] &= 3;
    }
    transfer.slab.copyFrom(MemorySegment.ofArray(bytes));
    transfer.checksum = Checksums.of(transfer.bytes());
    return transfer;
  }

  private static byte[] sealed(Arena arena, ObjectCipher cipher, Transfer block, String codec) {
    ObjectBlock sealing = new ObjectBlock(arena, cipher, new Buffers());
    BlockCodec by = BlockCodecs.create(codec);
    assertEquals(Status.OK, sealing.seal(block, by));
    return ObjectBlockTest.concatenated(sealing.parts());
  }

  private static Status open(ObjectBlock opening, byte[] object, Transfer wanted) {
    opening.expect(wanted);
    long at = 0;
    for (MemorySegment part : opening.parts()) {
      long count = Math.min(part.byteSize(), object.length - at);
      MemorySegment.copy(MemorySegment.ofArray(object), at, part, 0, count);
      at += count;
    }
    return opening.open(wanted, at);
  }

  private static Status open(Arena arena, ObjectCipher cipher, byte[] object, Transfer wanted) {
    return open(new ObjectBlock(arena, cipher, new Buffers()), object, wanted);
  }

  @Property(tries = 300)
  void open_anyBlockByAnyCodec_hasItsBytes(
      @ForAll @IntRange(min = 1, max = 70_000) int length,
      @ForAll boolean noise,
      @ForAll @IntRange(max = 2048) int annotationBytes,
      @ForAll long seed) {
    for (String codec : CODECS) {
      try (Arena arena = Arena.ofConfined()) {
        Transfer block = block(arena, length, noise, seed);
        ObjectBlockTest.annotate(block, annotationBytes);
        byte[] object = sealed(arena, TestKeys.cipher(1), block, codec);
        Transfer loaded = transfer(arena, length);
        assertEquals(Status.OK, open(arena, TestKeys.cipher(2, 1), object, loaded));
        assertEquals(-1, block.bytes().mismatch(loaded.bytes()));
        assertEquals(block.checksum, loaded.checksum);
        assertTrue(
            Arrays.equals(
                block.annotation,
                0,
                annotationBytes,
                loaded.annotation,
                0,
                loaded.annotationBytes));
      }
    }
  }

  @Property(tries = 200)
  void seal_anyBlock_hasNothingOfItInTheObject(
      @ForAll @IntRange(min = 16, max = 5000) int length, @ForAll long seed) {
    try (Arena arena = Arena.ofConfined()) {
      Transfer block = block(arena, length, true, seed);
      byte[] object = sealed(arena, TestKeys.cipher(1), block, "none");
      String plain = HexFormat.of().formatHex(block.bytes().toArray(ValueLayout.JAVA_BYTE));
      String stored = HexFormat.of().formatHex(object, HEADER_BYTES, object.length);
      for (int at = 0; at + 16 <= plain.length(); at += 16) {
        assertFalse(stored.contains(plain.substring(at, at + 16)));
      }
    }
  }

  /** Every bit of a header, and of the bytes behind it. */
  @Example
  void open_anyBitFlipped_isCorrupt() {
    try (Arena arena = Arena.ofConfined()) {
      for (String codec : new String[] {"none", "zstd"}) {
        byte[] object = sealed(arena, TestKeys.cipher(1), block(arena, 600, false, 1), codec);
        ObjectBlock opening = new ObjectBlock(arena, TestKeys.cipher(1), new Buffers());
        Transfer wanted = transfer(arena, 600);
        for (int bit = 0; bit < 8 * object.length; bit++) {
          byte[] damaged = object.clone();
          damaged[bit / 8] ^= (byte) (1 << bit % 8);
          Status status = open(opening, damaged, wanted);
          boolean saysOtherLength = bit / 32 == ObjectHeaderDescriptor.HEADER_BYTES_OFFSET / 4;
          assertEquals(
              saysOtherLength ? Status.VERSION_MISMATCH : Status.CORRUPT, status, "bit " + bit);
        }
        assertEquals(Status.OK, open(opening, object, wanted));
      }
    }
  }

  /** The header's own checksum is no secret: whoever changes the header can make it anew. */
  @Example
  void open_headerChangedAndItsChecksumMadeAnew_isNeverOk() {
    try (Arena arena = Arena.ofConfined()) {
      byte[] object = sealed(arena, TestKeys.cipher(1), block(arena, 600, false, 1), "zstd");
      ObjectBlock opening = new ObjectBlock(arena, TestKeys.cipher(1), new Buffers());
      Transfer wanted = transfer(arena, 600);
      MemorySegment header = arena.allocate(HEADER_BYTES, 8);
      for (int bit = 0; bit < 8 * HEADER_BYTES; bit++) {
        int word = bit / 32 * 4;
        if (word == ObjectHeaderDescriptor.HEADER_CHECKSUM_OFFSET) {
          continue;
        }
        byte[] forged = object.clone();
        forged[bit / 8] ^= (byte) (1 << bit % 8);
        header.copyFrom(MemorySegment.ofArray(forged).asSlice(0, HEADER_BYTES));
        new ObjectHeader(header, 1).seal();
        MemorySegment.copy(header, ValueLayout.JAVA_BYTE, 0, forged, 0, HEADER_BYTES);
        Status status = open(opening, forged, wanted);
        Status expected =
            switch (word) {
              // Bit 0 of it makes version 3, of objects with annotations.
              case ObjectHeaderDescriptor.VERSION_OFFSET ->
                  bit % 32 == 0 ? Status.CORRUPT : Status.VERSION_MISMATCH;
              case ObjectHeaderDescriptor.KEY_ID_OFFSET, ObjectHeaderDescriptor.KEY_ID_OFFSET + 4 ->
                  Status.DENIED;
              // Byte 48 is the cipher: none at all, or one that is unknown.
              case ObjectHeaderDescriptor.CIPHER_OFFSET ->
                  bit / 8 > ObjectHeaderDescriptor.CIPHER_OFFSET
                      ? Status.CORRUPT
                      : bit % 8 == 0 ? Status.DENIED : Status.VERSION_MISMATCH;
              default -> Status.CORRUPT;
            };
        assertEquals(expected, status, "bit " + bit);
      }
    }
  }

  @Example
  void open_withoutTheKey_isDeniedAndNeverRead() {
    try (Arena arena = Arena.ofConfined()) {
      byte[] object = sealed(arena, TestKeys.cipher(1), block(arena, 600, true, 1), "none");
      Transfer wanted = transfer(arena, 600);
      assertEquals(Status.DENIED, open(arena, TestKeys.cipher(2, 3), object, wanted));
      assertEquals(
          Status.DENIED, open(new ObjectBlock(arena, null, new Buffers()), object, wanted));
    }
  }

  @Example
  void open_notEncrypted_isDeniedUnlessAllowed() {
    try (Arena arena = Arena.ofConfined()) {
      ObjectBlock plain = new ObjectBlock(arena, null, new Buffers());
      Transfer block = block(arena, 600, true, 1);
      assertEquals(Status.OK, plain.seal(block, BlockCodecs.none()));
      byte[] object = Arrays.copyOf(plain.parts().get(0).toArray(ValueLayout.JAVA_BYTE), 792);
      MemorySegment.copy(block.bytes(), ValueLayout.JAVA_BYTE, 0, object, HEADER_BYTES, 600);
      Transfer wanted = transfer(arena, 600);
      assertEquals(Status.DENIED, open(arena, TestKeys.cipher(1), object, wanted));
      ObjectCipher lenient = new ObjectCipher(TestKeys.keys(1), true);
      assertEquals(Status.OK, open(arena, lenient, object, wanted));
      assertEquals(-1, block.bytes().mismatch(wanted.bytes()));
      // What is encrypted is no less checked there.
      byte[] encrypted = sealed(arena, lenient, block, "none");
      encrypted[HEADER_BYTES] ^= 1;
      assertEquals(Status.CORRUPT, open(arena, lenient, encrypted, wanted));
    }
  }

  @Example
  void seal_sameBlockAgain_hasAnotherNonce() {
    try (Arena arena = Arena.ofConfined()) {
      ObjectCipher cipher = TestKeys.cipher(1);
      Transfer block = block(arena, 100, true, 1);
      Set<String> nonces = new HashSet<>();
      Set<String> bodies = new HashSet<>();
      int at = ObjectHeaderDescriptor.entryOffset(0) + ObjectHeaderDescriptor.NONCE_OFFSET;
      for (int i = 0; i < 1000; i++) {
        byte[] object = sealed(arena, cipher, block, "none");
        assertTrue(nonces.add(HexFormat.of().formatHex(object, at, at + 12)));
        assertTrue(bodies.add(HexFormat.of().formatHex(object, HEADER_BYTES, object.length)));
      }
    }
  }

  @Example
  void keys_ofOtherBytes_haveOtherIds() {
    assertNotEquals(TestKeys.key(1).id, TestKeys.key(2).id);
    // The first eight bytes that sha256sum prints of 32 zeroes.
    assertEquals("66687aadf862bd77", CipherKey.text(new CipherKey(new byte[32]).id));
  }
}
