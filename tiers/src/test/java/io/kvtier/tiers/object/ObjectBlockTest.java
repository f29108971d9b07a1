package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingKind;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.transfer.Buffers;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class ObjectBlockTest {
  private static final BlockCodec NONE = BlockCodecs.create("none");
  private static final int LENGTH = 24;

  private final Arena arena = Arena.ofConfined();
  private final ObjectBlock block = new ObjectBlock(arena, null, new Buffers());

  @AfterEach
  void close() {
    arena.close();
  }

  private Transfer transfer(int length) {
    Transfer transfer = new Transfer(0);
    for (int i = 0; i < 20; i++) {
      transfer.key[i] = (byte) (0xa0 + i);
    }
    transfer.keyBytes = 20;
    transfer.group = 3;
    transfer.namespaceHigh = 0x0011_2233_4455_6677L;
    transfer.namespaceLow = 0x8899_aabb_ccdd_eeffL;
    transfer.generation = 0x0102_0304_0506_0708L;
    transfer.parent = 0x1112_1314_1516_1718L;
    transfer.depth = 42;
    transfer.length = length;
    transfer.slab = arena.allocate(length + 64L, 64);
    transfer.slabOffset = 64;
    for (int i = 0; i < length; i++) {
      transfer.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) (i * 7 / 5));
    }
    transfer.checksum = Checksums.of(transfer.bytes());
    return transfer;
  }

  private byte[] sealed(Transfer transfer, BlockCodec codec) {
    assertEquals(Status.OK, block.seal(transfer, codec));
    return concatenated(block.parts());
  }

  static byte[] concatenated(List<MemorySegment> parts) {
    java.io.ByteArrayOutputStream object = new java.io.ByteArrayOutputStream();
    parts.forEach(part -> object.writeBytes(part.toArray(ValueLayout.JAVA_BYTE)));
    return object.toByteArray();
  }

  static void annotate(Transfer transfer, int bytes) {
    transfer.annotate(bytes);
    for (int i = 0; i < bytes; i++) {
      transfer.annotation[i] = (byte) (i * 3 + 1);
    }
  }

  private static byte[] annotation(Transfer transfer) {
    return Arrays.copyOf(transfer.annotation, transfer.annotationBytes);
  }

  @ParameterizedTest
  @ValueSource(strings = {"none", "zstd", "planes"})
  void open_annotatedBlock_hasItsAnnotation(String codec) {
    for (int bytes : new int[] {1, 7, 64, 2048}) {
      Transfer stored = transfer(1000);
      annotate(stored, bytes);
      byte[] object = sealed(stored, BlockCodecs.create(codec));
      Transfer wanted = wanted(1000);
      assertEquals(Status.OK, open(object, wanted));
      assertEquals(-1, stored.bytes().mismatch(wanted.bytes()));
      assertArrayEquals(annotation(stored), annotation(wanted));
      object[object.length - 1] ^= 1;
      assertEquals(Status.CORRUPT, open(object, wanted(1000)), "the annotation is damaged");
    }
  }

  @Test
  void seal_annotatedBlock_isOfTheVersionThatOthersLeaveAlone() {
    Transfer stored = transfer(16);
    byte[] plain = sealed(stored, NONE);
    annotate(stored, 5);
    byte[] object = sealed(stored, NONE);
    assertEquals(2, plain[ObjectHeaderDescriptor.VERSION_OFFSET]);
    assertEquals(3, object[ObjectHeaderDescriptor.VERSION_OFFSET]);
    assertEquals(plain.length + 5, object.length);
    assertEquals(
        // length, and the last bytes of the object
        "05000000 0104070a0d".replace(" ", ""),
        HexFormat.of().formatHex(object, 64 + 68, 64 + 72)
            + HexFormat.of().formatHex(object, object.length - 5, object.length));
  }

  /** As another node does that knows the key, the namespace and the length, and no more. */
  private Status open(byte[] object, Transfer wanted) {
    block.expect(wanted);
    return block.open(wanted, fill(object));
  }

  private long fill(byte[] object) {
    long at = 0;
    for (MemorySegment part : block.parts()) {
      long count = Math.min(part.byteSize(), object.length - at);
      MemorySegment.copy(MemorySegment.ofArray(object), at, part, 0, count);
      at += count;
    }
    return at;
  }

  /** The same, where the store shows a digest some of the bytes as they come. */
  private Status openDigested(byte[] object, Transfer wanted, byte[] seen) {
    block.expect(wanted);
    PartDigest digest = block.newDigest();
    digest.add(0, ByteBuffer.allocate(64));
    digest.add(1, ByteBuffer.wrap(seen, 0, seen.length / 2));
    digest.add(1, ByteBuffer.wrap(seen, seen.length / 2, seen.length - seen.length / 2));
    digest.add(2, ByteBuffer.allocate(64));
    return block.open(wanted, fill(object));
  }

  @Test
  void open_bytesThatADigestHasSeen_areCheckedByIt() {
    Transfer stored = transfer(1000);
    byte[] object = sealed(stored, NONE);
    byte[] bytes = stored.bytes().toArray(ValueLayout.JAVA_BYTE);
    assertEquals(Status.OK, openDigested(object, wanted(1000), bytes));
    byte[] damaged = bytes.clone();
    damaged[500] ^= 1;
    assertEquals(Status.CORRUPT, openDigested(object, wanted(1000), damaged));
  }

  @Test
  void open_bytesThatADigestHasSeenInPart_areReadAgain() {
    Transfer stored = transfer(1000);
    byte[] object = sealed(stored, NONE);
    byte[] some = Arrays.copyOf(stored.bytes().toArray(ValueLayout.JAVA_BYTE), 999);
    assertEquals(Status.OK, openDigested(object, wanted(1000), some));
    object[object.length - 1] ^= 1;
    assertEquals(Status.CORRUPT, openDigested(object, wanted(1000), some));
  }

  @Test
  void open_encodedBlock_isCheckedAsItIsDecoded() {
    Transfer stored = transfer(1000);
    stored.bytes().fill((byte) 7);
    stored.checksum = Checksums.of(stored.bytes());
    byte[] object = sealed(stored, BlockCodecs.create("zstd"));
    assertTrue(object.length < 1000);
    byte[] anything = new byte[1000];
    assertEquals(Status.OK, openDigested(object, wanted(1000), anything));
  }

  private Transfer wanted(int length) {
    Transfer wanted = transfer(length);
    wanted.bytes().fill((byte) 0);
    wanted.checksum = 0;
    wanted.generation = 0;
    wanted.parent = 0;
    wanted.depth = 0;
    return wanted;
  }

  @Test
  void seal_knownBlock_hasTheGoldenBytes() {
    String golden =
        // magic, version, checksum, header bytes, blocks
        "4b56544945524f42 02000000 e056986b c0000000 01000000"
            // no key, namespace, no cipher
            + "0000000000000000 7766554433221100 ffeeddccbbaa9988 00"
            + "000000000000000000000000000000"
            // key
            + "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3 000000000000000000000000"
            // generation, parent
            + "0807060504030201 1817161514131211"
            // length, stored length, checksum of the block, depth
            + "18000000 18000000 742da5c8 2a000000"
            // group, key bytes, codec, begin
            + "0300 14 00 00000000 c000000000000000"
            // no nonce, no tag
            + "00000000000000000000000000000000 00000000000000000000000000000000"
            + "00000000000000000000000000000000"
            // the block
            + "0001020405070809 0b0c0e0f10121315 1617191a1c1d1e20";
    assertEquals(golden.replace(" ", ""), HexFormat.of().formatHex(sealed(transfer(LENGTH), NONE)));
  }

  /** Made by another implementation of AES-GCM, SHA-256 and CRC32C. */
  @Test
  void seal_encryptedKnownBlock_hasTheGoldenBytes() {
    byte[] key = new byte[32];
    for (int i = 0; i < key.length; i++) {
      key[i] = (byte) i;
    }
    ObjectCipher cipher =
        new ObjectCipher(
            new CipherKeys(new CipherKey(key), List.of()),
            false,
            nonce -> {
              for (int i = 0; i < nonce.length; i++) {
                nonce[i] = (byte) (0xc0 + i);
              }
            });
    String golden =
        // magic, version, checksum, header bytes, blocks
        "4b56544945524f42 02000000 eb9050aa c0000000 01000000"
            // id of the key, namespace, cipher
            + "630dcd2966c43366 7766554433221100 ffeeddccbbaa9988 01"
            + "000000000000000000000000000000"
            // key
            + "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3 000000000000000000000000"
            // generation, parent
            + "0807060504030201 1817161514131211"
            // length, stored length, checksum of the block, depth
            + "18000000 18000000 742da5c8 2a000000"
            // group, key bytes, codec, begin
            + "0300 14 00 00000000 c000000000000000"
            // nonce, tag
            + "c0c1c2c3c4c5c6c7c8c9cacb 00000000 091289bf4cbcdcc4f6f06459e47eb28f"
            + "00000000000000000000000000000000"
            // the block
            + "00492563727f9e57 93d5f3ad22befb43 5a64fa2520ff019a";
    ObjectBlock encrypting = new ObjectBlock(arena, cipher, new Buffers());
    assertEquals(Status.OK, encrypting.seal(transfer(LENGTH), NONE));
    StringBuilder sealed = new StringBuilder();
    for (MemorySegment part : encrypting.parts()) {
      sealed.append(HexFormat.of().formatHex(part.toArray(ValueLayout.JAVA_BYTE)));
    }
    assertEquals(golden.replace(" ", ""), sealed.toString());
  }

  @ParameterizedTest
  @ValueSource(strings = {"none", "zstd", "planes"})
  void open_sealedBlock_hasItsBytesAndWhatIsToldOfIt(String codec) {
    Transfer stored = transfer(100_000);
    byte[] object = sealed(stored, BlockCodecs.create(codec));
    assertEquals(codec.equals("none"), object.length >= 100_000);
    Transfer loaded = wanted(100_000);
    assertEquals(Status.OK, open(object, loaded));
    assertEquals(-1, stored.bytes().mismatch(loaded.bytes()));
    assertEquals(stored.checksum, loaded.checksum);
    assertEquals(stored.generation, loaded.generation);
    assertEquals(stored.parent, loaded.parent);
    assertEquals(stored.depth, loaded.depth);
  }

  @ParameterizedTest
  @ValueSource(strings = {"none", "zstd"})
  void open_anyBitFlipped_isRefused(String codec) {
    byte[] object = sealed(transfer(1000), BlockCodecs.create(codec));
    for (int at = 0; at < object.length; at++) {
      byte[] damaged = object.clone();
      damaged[at] ^= (byte) (1 << at % 8);
      Transfer loaded = wanted(1000);
      assertNotEquals(Status.OK, open(damaged, loaded), "flipped in byte " + at);
    }
  }

  @Test
  void open_truncatedOrLonger_isCorrupt() {
    byte[] object = sealed(transfer(1000), NONE);
    for (int length : new int[] {0, 1, 63, 191, 192, 193, object.length - 1}) {
      assertEquals(
          Status.CORRUPT, open(java.util.Arrays.copyOf(object, length), wanted(1000)), "" + length);
    }
    // The object of a shorter block, asked for as a longer one's.
    assertEquals(Status.CORRUPT, open(object, wanted(1200)));
  }

  @Test
  void open_blockInItsOtherForm_isTooLarge() {
    BlockEncoding encoding = new BlockEncoding(EncodingKind.EXACT, 512, 1);
    for (int length : new int[] {1024, 784}) {
      byte[] object = sealed(transfer(length), NONE);
      Transfer other = wanted(length == 784 ? 1024 : 784);
      other.encoding = encoding;
      assertEquals(Status.TOO_LARGE, open(object, other));
      other.keyBytes--;
      assertEquals(Status.CORRUPT, open(object, other));
    }
    Transfer neither = wanted(784);
    neither.encoding = encoding;
    assertEquals(Status.CORRUPT, open(sealed(transfer(1000), NONE), neither));
  }

  @Test
  void open_objectOfAnother_isCorrupt() {
    byte[] object = sealed(transfer(1000), NONE);
    Transfer otherKey = wanted(1000);
    otherKey.key[19]++;
    assertEquals(Status.CORRUPT, open(object, otherKey));
    Transfer shorterKey = wanted(1000);
    shorterKey.keyBytes = 19;
    assertEquals(Status.CORRUPT, open(object, shorterKey));
    Transfer otherGroup = wanted(1000);
    otherGroup.group = 4;
    assertEquals(Status.CORRUPT, open(object, otherGroup));
    Transfer otherNamespace = wanted(1000);
    otherNamespace.namespaceLow++;
    assertEquals(Status.CORRUPT, open(object, otherNamespace));
  }

  @Test
  void open_otherVersion_isNotCalledCorrupt() {
    Transfer stored = transfer(1000);
    assertEquals(Status.OK, block.seal(stored, NONE));
    MemorySegment memory = block.parts().getFirst();
    Words.putInt(memory, ObjectHeaderDescriptor.VERSION_OFFSET, ObjectHeaderDescriptor.VERSION - 1);
    new ObjectHeader(memory, 1).seal();
    byte[] object =
        java.util.Arrays.copyOf(memory.toArray(ValueLayout.JAVA_BYTE), 192 + stored.length);
    assertEquals(Status.VERSION_MISMATCH, open(object, wanted(1000)));
  }

  @Test
  void seal_slotChangedSinceItWasAccepted_isCorrupt() {
    Transfer transfer = transfer(1000);
    transfer.bytes().set(ValueLayout.JAVA_BYTE, 500, (byte) 99);
    assertEquals(Status.CORRUPT, block.seal(transfer, NONE));
  }

  @Test
  void header_severalBlocks_keepsEachApart() {
    int bytes = ObjectHeaderDescriptor.headerBytes(5);
    assertEquals(0, bytes % 64);
    ObjectHeader header = new ObjectHeader(arena.allocate(bytes, 8), 5);
    Transfer transfer = transfer(1000);
    header.begin(1, 2);
    for (int i = 0; i < 5; i++) {
      transfer.key[0] = (byte) i;
      transfer.depth = i;
      header.enter(i, transfer, (byte) 0, 1000, bytes + i * 1000L);
    }
    header.seal();
    assertEquals(Status.OK, header.check(1, 2));
    for (int i = 0; i < 5; i++) {
      transfer.key[0] = (byte) i;
      assertTrue(header.isOf(i, transfer));
      assertEquals(i, header.depth(i));
      assertEquals(bytes + i * 1000L, header.begin(i));
    }
    assertThrows(
        IllegalArgumentException.class, () -> new ObjectHeader(arena.allocate(bytes, 8), 4));
  }
}
