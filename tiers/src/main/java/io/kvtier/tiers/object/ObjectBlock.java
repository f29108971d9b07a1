package io.kvtier.tiers.object;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.codec.CodecException;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One block as an object of its own, on its way there or back. Its bytes are put from their host
 * slot, and got into it; where a codec makes them fewer or a cipher makes others of them, they are
 * put from a buffer that is kept for the next block. Not safe for several threads.
 */
final class ObjectBlock {
  private static final int ONLY = 0;
  private static final int HEADER_BYTES = ObjectHeaderDescriptor.headerBytes(1);

  /** The codec of bytes that are stored as they are. */
  static final byte NOT_ENCODED = 0;

  /** What was read, while its slot gets the block. One a thread, as large as the largest so far. */
  private static final ThreadLocal<MemorySegment> OPENED =
      ThreadLocal.withInitial(() -> MemorySegment.NULL);

  private final ObjectHeader header;
  private final @Nullable ObjectCipher cipher;
  private MemorySegment sealed = MemorySegment.NULL;
  private List<MemorySegment> parts = List.of();

  /** Without a cipher: encrypted blocks can't be opened. */
  ObjectBlock(Arena arena) {
    this(arena, null);
  }

  /**
   * For one block at a time.
   *
   * @param arena keeps the header
   * @param cipher encrypts; null for nobody
   */
  ObjectBlock(Arena arena, @Nullable ObjectCipher cipher) {
    header = new ObjectHeader(arena.allocate(HEADER_BYTES, Long.BYTES), 1);
    this.cipher = cipher;
  }

  /**
   * Checks that a host slot still holds the bytes that were accepted, and makes an object of them.
   *
   * @return OK, or CORRUPT: nothing may be written then
   */
  Status seal(Transfer transfer, BlockCodec codec) {
    MemorySegment bytes = transfer.bytes();
    if (Checksums.of(bytes) != transfer.checksum) {
      return Status.CORRUPT;
    }
    int tagBytes = cipher == null ? 0 : ObjectCipher.TAG_BYTES;
    MemorySegment stored = bytes;
    byte codecId = NOT_ENCODED;
    if (codec.id() != NOT_ENCODED) {
      MemorySegment target = sealed(codec.boundBytes(transfer.length) + tagBytes);
      int encoded = codec.encode(bytes, target.asSlice(0, target.byteSize() - tagBytes));
      if (encoded >= 0) {
        stored = target.asSlice(0, encoded);
        codecId = codec.id();
      }
    }
    header.begin(transfer.namespaceHigh, transfer.namespaceLow);
    header.enter(ONLY, transfer, codecId, (int) stored.byteSize(), HEADER_BYTES);
    if (cipher != null) {
      stored = encrypt(cipher, stored);
    }
    header.seal();
    parts = List.of(header.memory(), stored);
    return Status.OK;
  }

  /** Where the bytes are in the buffer already, they are encrypted in their place. */
  private MemorySegment encrypt(ObjectCipher with, MemorySegment plain) {
    byte[] nonce = with.nextNonce();
    header.encrypt(with.writingKey());
    header.setNonce(ONLY, nonce);
    MemorySegment target = sealed(plain.byteSize() + ObjectCipher.TAG_BYTES);
    with.encrypt(nonce, header.authenticated(), plain, target);
    header.setTag(ONLY, target.asSlice(plain.byteSize()));
    return target.asSlice(0, plain.byteSize());
  }

  /**
   * Whether what was read says that it takes some time to be opened. It may be damaged, and lie.
   */
  boolean takesTime(long received) {
    return received >= HEADER_BYTES && (header.codec(ONLY) != NOT_ENCODED || header.isEncrypted());
  }

  /** Where an object goes that is to be {@link #open}ed for this transfer: its slot. */
  void expect(Transfer transfer) {
    expect(transfer.bytes());
  }

  /** The same into other memory, as long as the block. */
  void expect(MemorySegment bytes) {
    parts = List.of(header.memory(), bytes);
  }

  /** The object: what to put, or what to fill. */
  List<MemorySegment> parts() {
    return parts;
  }

  /** The header of what was read, or of what is to be put. */
  ObjectHeader header() {
    return header;
  }

  /**
   * Checks that what was read is the block that was asked for, and decrypts and decodes it where it
   * is. What the header tells of it is in the transfer then: its checksum, generation, parent and
   * depth.
   *
   * @param received how many bytes of the parts were filled
   * @return OK, CORRUPT, VERSION_MISMATCH, or DENIED: an object that says to be of this block, but
   *     is encrypted with a key that is not here, or not encrypted where it must be. The slot holds
   *     anything then
   */
  Status open(Transfer transfer, long received) {
    if (received < HEADER_BYTES) {
      return Status.CORRUPT;
    }
    Status status = header.check(transfer.namespaceHigh, transfer.namespaceLow);
    if (status != Status.OK) {
      return status;
    }
    int stored = header.storedLength(ONLY);
    if (!header.isOf(ONLY, transfer)
        || header.begin(ONLY) != HEADER_BYTES
        || received != HEADER_BYTES + (long) stored) {
      return Status.CORRUPT;
    }
    boolean encoded = header.codec(ONLY) != NOT_ENCODED;
    if (!encoded && stored != transfer.length) {
      return Status.CORRUPT;
    }
    MemorySegment bytes = transfer.bytes();
    MemorySegment read = bytes.asSlice(0, stored);
    switch (header.cipher()) {
      case ObjectCipher.NOT_ENCRYPTED -> {
        if (cipher != null && !cipher.readsUnencrypted()) {
          return Status.DENIED;
        }
        if (encoded) {
          read = opened(stored).copyFrom(read);
        }
      }
      case ObjectCipher.AES_256_GCM -> {
        if (cipher == null || !cipher.hasKey(header.keyId())) {
          return Status.DENIED;
        }
        MemorySegment encrypted = opened(stored + (long) ObjectCipher.TAG_BYTES);
        encrypted.asSlice(0, stored).copyFrom(read);
        encrypted.asSlice(stored).copyFrom(header.tag(ONLY));
        read = encoded ? encrypted.asSlice(0, stored) : bytes;
        if (!cipher.decrypt(
            header.keyId(), header.nonce(ONLY), header.authenticated(), encrypted, read)) {
          return Status.CORRUPT;
        }
      }
      default -> {
        return Status.VERSION_MISMATCH;
      }
    }
    return decoded(transfer, read);
  }

  /** Decodes and checks what is left to be; the last step of opening. */
  private Status decoded(Transfer transfer, MemorySegment read) {
    MemorySegment bytes = transfer.bytes();
    if (header.codec(ONLY) != NOT_ENCODED) {
      try {
        BlockCodecs.byId(header.codec(ONLY)).decode(read, bytes);
      } catch (CodecException e) {
        return Status.CORRUPT;
      }
    }
    int checksum = header.checksum(ONLY);
    if (Checksums.of(bytes) != checksum) {
      return Status.CORRUPT;
    }
    transfer.checksum = checksum;
    transfer.generation = header.generation(ONLY);
    transfer.parent = header.parent(ONLY);
    transfer.depth = header.depth(ONLY);
    return Status.OK;
  }

  /** The block's own: the store reads it until the call has ended. */
  private MemorySegment sealed(long bytes) {
    if (sealed.byteSize() < bytes) {
      sealed = Arena.ofAuto().allocate(bytes, Long.BYTES);
    }
    return sealed.asSlice(0, bytes);
  }

  private static MemorySegment opened(long bytes) {
    MemorySegment memory = OPENED.get();
    if (memory.byteSize() < bytes) {
      memory = Arena.ofAuto().allocate(bytes, Long.BYTES);
      OPENED.set(memory);
    }
    return memory.asSlice(0, bytes);
  }
}
