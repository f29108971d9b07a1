package io.kvtier.tiers.object;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.zip.CRC32C;

/** An object's header in memory of one's own, written or read. Not safe for several threads. */
final class ObjectHeader {
  private final MemorySegment memory;
  private final int blocks;

  /**
   * A header of so many blocks.
   *
   * @param memory {@link ObjectHeaderDescriptor#headerBytes} of it, 8-byte aligned
   */
  ObjectHeader(MemorySegment memory, int blocks) {
    if (memory.byteSize() != ObjectHeaderDescriptor.headerBytes(blocks)) {
      throw new IllegalArgumentException(
          "the header of "
              + blocks
              + " blocks has "
              + ObjectHeaderDescriptor.headerBytes(blocks)
              + " bytes, not "
              + memory.byteSize());
    }
    this.memory = memory;
    this.blocks = blocks;
  }

  MemorySegment memory() {
    return memory;
  }

  int bytes() {
    return (int) memory.byteSize();
  }

  /** Begins a new one, of blocks of one namespace. */
  void begin(long namespaceHigh, long namespaceLow) {
    memory.fill((byte) 0);
    Words.putLong(memory, ObjectHeaderDescriptor.MAGIC_OFFSET, ObjectHeaderDescriptor.MAGIC);
    Words.putInt(memory, ObjectHeaderDescriptor.VERSION_OFFSET, ObjectHeaderDescriptor.VERSION);
    Words.putInt(memory, ObjectHeaderDescriptor.HEADER_BYTES_OFFSET, bytes());
    Words.putInt(memory, ObjectHeaderDescriptor.BLOCKS_OFFSET, blocks);
    Words.putLong(memory, ObjectHeaderDescriptor.NAMESPACE_OFFSET, namespaceHigh);
    Words.putLong(memory, ObjectHeaderDescriptor.NAMESPACE_OFFSET + 8L, namespaceLow);
  }

  /** Enters a block, as a transfer tells of it and as it is stored. */
  void enter(int block, Transfer transfer, byte codec, int storedLength, long begin) {
    long entry = ObjectHeaderDescriptor.entryOffset(block);
    MemorySegment.copy(
        transfer.key,
        0,
        memory,
        ValueLayout.JAVA_BYTE,
        entry + ObjectHeaderDescriptor.KEY_OFFSET,
        transfer.key.length);
    Words.putLong(memory, entry + ObjectHeaderDescriptor.GENERATION_OFFSET, transfer.generation);
    Words.putLong(memory, entry + ObjectHeaderDescriptor.PARENT_OFFSET, transfer.parent);
    Words.putInt(memory, entry + ObjectHeaderDescriptor.LENGTH_OFFSET, transfer.length);
    Words.putInt(memory, entry + ObjectHeaderDescriptor.STORED_LENGTH_OFFSET, storedLength);
    Words.putInt(memory, entry + ObjectHeaderDescriptor.CHECKSUM_OFFSET, transfer.checksum);
    Words.putInt(memory, entry + ObjectHeaderDescriptor.DEPTH_OFFSET, transfer.depth);
    Words.putShort(memory, entry + ObjectHeaderDescriptor.GROUP_OFFSET, transfer.group);
    Words.putByte(memory, entry + ObjectHeaderDescriptor.KEY_LENGTH_OFFSET, transfer.keyBytes);
    Words.putByte(memory, entry + ObjectHeaderDescriptor.CODEC_OFFSET, codec);
    Words.putLong(memory, entry + ObjectHeaderDescriptor.BEGIN_OFFSET, begin);
  }

  /** Says that a block has an annotation, and which. */
  void annotate(int block, MemorySegment annotation) {
    Words.putInt(
        memory, ObjectHeaderDescriptor.VERSION_OFFSET, ObjectHeaderDescriptor.VERSION_ANNOTATED);
    long entry = ObjectHeaderDescriptor.entryOffset(block);
    Words.putShort(
        memory,
        entry + ObjectHeaderDescriptor.ANNOTATION_BYTES_OFFSET,
        (int) annotation.byteSize());
    Words.putInt(
        memory,
        entry + ObjectHeaderDescriptor.ANNOTATION_CHECKSUM_OFFSET,
        Checksums.of(annotation));
  }

  /** Says that the blocks are encrypted, and with which key. */
  void encrypt(long keyId) {
    Words.putByte(memory, ObjectHeaderDescriptor.CIPHER_OFFSET, ObjectCipher.AES_256_GCM);
    Words.putLong(memory, ObjectHeaderDescriptor.KEY_ID_OFFSET, Long.reverseBytes(keyId));
  }

  void setNonce(int block, byte[] nonce) {
    MemorySegment.copy(
        nonce,
        0,
        memory,
        ValueLayout.JAVA_BYTE,
        ObjectHeaderDescriptor.entryOffset(block) + ObjectHeaderDescriptor.NONCE_OFFSET,
        nonce.length);
  }

  void setTag(int block, MemorySegment tag) {
    tag(block).copyFrom(tag);
  }

  /** Ends a new one. */
  void seal() {
    Words.putInt(memory, ObjectHeaderDescriptor.HEADER_CHECKSUM_OFFSET, checksum());
  }

  /**
   * Whether what was read is the header of so many blocks of a namespace.
   *
   * @return OK, CORRUPT, or VERSION_MISMATCH for what another version may read
   */
  Status check(long namespaceHigh, long namespaceLow) {
    if (Words.getLong(memory, ObjectHeaderDescriptor.MAGIC_OFFSET)
        != ObjectHeaderDescriptor.MAGIC) {
      return Status.CORRUPT;
    }
    if (Words.getInt(memory, ObjectHeaderDescriptor.HEADER_CHECKSUM_OFFSET) != checksum()) {
      // A header of another length has its checksum over what is not here.
      return Words.getInt(memory, ObjectHeaderDescriptor.HEADER_BYTES_OFFSET) == bytes()
          ? Status.CORRUPT
          : Status.VERSION_MISMATCH;
    }
    int version = Words.getInt(memory, ObjectHeaderDescriptor.VERSION_OFFSET);
    if (version != ObjectHeaderDescriptor.VERSION
        && version != ObjectHeaderDescriptor.VERSION_ANNOTATED) {
      return Status.VERSION_MISMATCH;
    }
    return Words.getInt(memory, ObjectHeaderDescriptor.BLOCKS_OFFSET) == blocks
            && Words.getLong(memory, ObjectHeaderDescriptor.NAMESPACE_OFFSET) == namespaceHigh
            && Words.getLong(memory, ObjectHeaderDescriptor.NAMESPACE_OFFSET + 8L) == namespaceLow
        ? Status.OK
        : Status.CORRUPT;
  }

  /** Whether a block's entry is of the key that a transfer names. */
  boolean isOf(int block, Transfer transfer) {
    long entry = ObjectHeaderDescriptor.entryOffset(block);
    return Words.getShort(memory, entry + ObjectHeaderDescriptor.GROUP_OFFSET) == transfer.group
        && Words.getByte(memory, entry + ObjectHeaderDescriptor.KEY_LENGTH_OFFSET)
            == transfer.keyBytes
        && memory
                .asSlice(
                    entry + ObjectHeaderDescriptor.KEY_OFFSET, ObjectHeaderDescriptor.KEY_BYTES_MAX)
                .mismatch(MemorySegment.ofArray(transfer.key))
            == -1;
  }

  /** The length of a block's annotation; 0 where it has none. */
  int annotationBytes(int block) {
    long at =
        (long) ObjectHeaderDescriptor.entryOffset(block)
            + ObjectHeaderDescriptor.ANNOTATION_BYTES_OFFSET;
    return Words.getInt(memory, ObjectHeaderDescriptor.VERSION_OFFSET)
            == ObjectHeaderDescriptor.VERSION_ANNOTATED
        ? Words.getShort(memory, at)
        : 0;
  }

  int annotationChecksum(int block) {
    return intOf(block, ObjectHeaderDescriptor.ANNOTATION_CHECKSUM_OFFSET);
  }

  int length(int block) {
    return intOf(block, ObjectHeaderDescriptor.LENGTH_OFFSET);
  }

  int storedLength(int block) {
    return intOf(block, ObjectHeaderDescriptor.STORED_LENGTH_OFFSET);
  }

  int checksum(int block) {
    return intOf(block, ObjectHeaderDescriptor.CHECKSUM_OFFSET);
  }

  int depth(int block) {
    return intOf(block, ObjectHeaderDescriptor.DEPTH_OFFSET);
  }

  byte codec(int block) {
    long entry = ObjectHeaderDescriptor.entryOffset(block);
    return (byte) Words.getByte(memory, entry + ObjectHeaderDescriptor.CODEC_OFFSET);
  }

  long generation(int block) {
    return longOf(block, ObjectHeaderDescriptor.GENERATION_OFFSET);
  }

  long parent(int block) {
    return longOf(block, ObjectHeaderDescriptor.PARENT_OFFSET);
  }

  long begin(int block) {
    return longOf(block, ObjectHeaderDescriptor.BEGIN_OFFSET);
  }

  /** One of {@link ObjectCipher}'s, or what another version may know. */
  byte cipher() {
    return (byte) Words.getByte(memory, ObjectHeaderDescriptor.CIPHER_OFFSET);
  }

  boolean isEncrypted() {
    return cipher() != ObjectCipher.NOT_ENCRYPTED;
  }

  /** Of the key that the blocks are encrypted with. */
  long keyId() {
    return Long.reverseBytes(Words.getLong(memory, ObjectHeaderDescriptor.KEY_ID_OFFSET));
  }

  byte[] nonce(int block) {
    return memory
        .asSlice(
            ObjectHeaderDescriptor.entryOffset(block) + ObjectHeaderDescriptor.NONCE_OFFSET,
            ObjectCipher.NONCE_BYTES)
        .toArray(ValueLayout.JAVA_BYTE);
  }

  MemorySegment tag(int block) {
    return memory.asSlice(
        ObjectHeaderDescriptor.entryOffset(block) + ObjectHeaderDescriptor.TAG_OFFSET,
        ObjectCipher.TAG_BYTES);
  }

  /** What the cipher authenticates with each block: all but the checksum and the tags. */
  byte[] authenticated() {
    byte[] bytes = memory.toArray(ValueLayout.JAVA_BYTE);
    int checksum = ObjectHeaderDescriptor.HEADER_CHECKSUM_OFFSET;
    Arrays.fill(bytes, checksum, checksum + Integer.BYTES, (byte) 0);
    for (int block = 0; block < blocks; block++) {
      int tag = ObjectHeaderDescriptor.entryOffset(block) + ObjectHeaderDescriptor.TAG_OFFSET;
      Arrays.fill(bytes, tag, tag + ObjectCipher.TAG_BYTES, (byte) 0);
    }
    return bytes;
  }

  private int intOf(int block, int offset) {
    return Words.getInt(memory, (long) ObjectHeaderDescriptor.entryOffset(block) + offset);
  }

  private long longOf(int block, int offset) {
    return Words.getLong(memory, (long) ObjectHeaderDescriptor.entryOffset(block) + offset);
  }

  private int checksum() {
    CRC32C crc = new CRC32C();
    long after = ObjectHeaderDescriptor.HEADER_CHECKSUM_OFFSET + (long) Integer.BYTES;
    crc.update(memory.asSlice(0, ObjectHeaderDescriptor.HEADER_CHECKSUM_OFFSET).asByteBuffer());
    crc.update(memory.asSlice(after).asByteBuffer());
    return (int) crc.getValue();
  }
}
