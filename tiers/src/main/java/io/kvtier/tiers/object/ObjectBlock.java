package io.kvtier.tiers.object;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.codec.CodecException;
import io.kvtier.tiers.transfer.Buffers;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One block as an object of its own, on its way to the store or back. Puts read the bytes of the
 * host slot, and gets write them. Bytes that are encoded or encrypted are put from a buffer, which
 * is kept for the next block. Not safe for several threads.
 */
final class ObjectBlock {
  private static final int ONLY = 0;

  /** The number of the part that a get fills with the block's bytes. */
  private static final int BYTES_PART = 1;

  private static final int HEADER_BYTES = ObjectHeaderDescriptor.headerBytes(1);

  /** The codec of bytes that are stored as they are. */
  static final byte NOT_ENCODED = 0;

  private final ObjectHeader header;

  /** The end of an object, from the length of the block on: the annotation, or a part of it. */
  private final MemorySegment tail;

  private final @Nullable ObjectCipher cipher;

  /** Hold encoded or encrypted bytes that were read, while the slot gets the block. */
  private final Buffers buffers;

  private MemorySegment sealed = MemorySegment.NULL;
  private List<MemorySegment> parts = List.of();
  private @Nullable PartDigest digest;

  /**
   * For one block at a time.
   *
   * @param arena keeps the header
   * @param cipher null for none: blocks are not encrypted, and encrypted blocks can't be opened
   * @param buffers shared with the other blocks of a pipeline
   */
  ObjectBlock(Arena arena, @Nullable ObjectCipher cipher, Buffers buffers) {
    header = new ObjectHeader(arena.allocate(HEADER_BYTES, Long.BYTES), 1);
    tail = arena.allocate(ObjectHeaderDescriptor.ANNOTATION_BYTES_MAX, Long.BYTES);
    this.cipher = cipher;
    this.buffers = buffers;
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
    transfer.measureErrors();
    // The annotation and the tag stand in the buffer behind the bytes.
    int extraBytes = transfer.annotationBytes + (cipher == null ? 0 : ObjectCipher.TAG_BYTES);
    MemorySegment stored = bytes;
    byte codecId = NOT_ENCODED;
    if (codec.id() != NOT_ENCODED) {
      MemorySegment target = sealed(codec.boundBytes(transfer.length) + extraBytes);
      int encoded = codec.encode(bytes, target.asSlice(0, target.byteSize() - extraBytes));
      if (encoded >= 0) {
        stored = target.asSlice(0, encoded);
        codecId = codec.id();
      }
    }
    header.begin(transfer.namespaceHigh, transfer.namespaceLow);
    header.enter(ONLY, transfer, codecId, (int) stored.byteSize(), HEADER_BYTES);
    MemorySegment annotation = tail.asSlice(0, transfer.annotationBytes);
    if (transfer.annotationBytes > 0) {
      annotation.copyFrom(
          MemorySegment.ofArray(transfer.annotation).asSlice(0, transfer.annotationBytes));
      header.annotate(ONLY, annotation);
    }
    if (cipher != null) {
      parts = List.of(header.memory(), encrypt(cipher, stored, annotation));
    } else if (transfer.annotationBytes > 0) {
      parts = List.of(header.memory(), stored, annotation);
    } else {
      parts = List.of(header.memory(), stored);
    }
    header.seal();
    return Status.OK;
  }

  /** Bytes that are in the buffer already are encrypted in place. */
  private MemorySegment encrypt(ObjectCipher with, MemorySegment stored, MemorySegment annotation) {
    byte[] nonce = with.nextNonce();
    header.encrypt(with.writingKey());
    header.setNonce(ONLY, nonce);
    long bytes = stored.byteSize() + annotation.byteSize();
    MemorySegment target = sealed(bytes + ObjectCipher.TAG_BYTES);
    MemorySegment plain = stored;
    if (annotation.byteSize() > 0) {
      plain = target.asSlice(0, bytes);
      plain.asSlice(0, stored.byteSize()).copyFrom(stored);
      plain.asSlice(stored.byteSize()).copyFrom(annotation);
    }
    with.encrypt(nonce, header.authenticated(), plain, target);
    header.setTag(ONLY, target.asSlice(bytes));
    return target.asSlice(0, bytes);
  }

  /** Whether opening takes some time, as the header that was read has it. The header may lie. */
  boolean takesTime(long received) {
    return received >= HEADER_BYTES && (header.codec(ONLY) != NOT_ENCODED || header.isEncrypted());
  }

  /** Prepares a get into the slot of a transfer. */
  void expect(Transfer transfer) {
    expect(transfer.bytes());
  }

  /** Prepares a get into other memory, as long as the block. */
  void expect(MemorySegment bytes) {
    parts = List.of(header.memory(), bytes, tail);
    digest = null;
  }

  /** The bytes that were read into other memory were copied to this memory. */
  void moved(MemorySegment bytes) {
    parts = List.of(header.memory(), bytes, tail);
  }

  /** A digest of the block's bytes, for the next get. */
  PartDigest newDigest() {
    PartDigest made = new PartDigest(BYTES_PART);
    digest = made;
    return made;
  }

  /** The parts of the object, which a put reads and a get fills. */
  List<MemorySegment> parts() {
    return parts;
  }

  /** The header of the object that was read, or is put. */
  ObjectHeader header() {
    return header;
  }

  /**
   * Decrypts and decodes an object that was read, and checks that the object is the block that was
   * asked for. The transfer gets the block's checksum, generation, parent and depth.
   *
   * @param received how many bytes of the parts were filled
   * @return OK; CORRUPT; VERSION_MISMATCH; TOO_LARGE for this block in another form, which has
   *     another length; or DENIED for an object of this block whose key is not here, or that is not
   *     encrypted although it must be. Unless OK, the slot may hold anything
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
    int annotationBytes = header.annotationBytes(ONLY);
    if (isInOtherForm(transfer)) {
      return Status.TOO_LARGE;
    }
    if (!header.isOf(ONLY, transfer)
        || header.length(ONLY) != transfer.length
        || header.begin(ONLY) != HEADER_BYTES
        || stored < 0
        || annotationBytes > ObjectHeaderDescriptor.ANNOTATION_BYTES_MAX
        || received != HEADER_BYTES + (long) stored + annotationBytes) {
      return Status.CORRUPT;
    }
    boolean encoded = header.codec(ONLY) != NOT_ENCODED;
    if (encoded ? stored > transfer.length : stored != transfer.length) {
      return Status.CORRUPT;
    }
    long bufferBytes = 0;
    if (header.isEncrypted()) {
      bufferBytes = (long) stored + annotationBytes + ObjectCipher.TAG_BYTES;
    } else if (encoded) {
      bufferBytes = stored;
    }
    MemorySegment buffer = buffers.take(bufferBytes);
    try {
      return open(transfer, stored, annotationBytes, buffer);
    } finally {
      buffers.give(buffer);
    }
  }

  /**
   * Whether the header that was read is of this block in another form, which has another length.
   */
  boolean isInOtherForm(Transfer transfer) {
    return header.check(transfer.namespaceHigh, transfer.namespaceLow) == Status.OK
        && header.isOf(ONLY, transfer)
        && header.length(ONLY) == otherLength(transfer);
  }

  /** The length of the other form of a block; -1 when it has none. */
  private static long otherLength(Transfer transfer) {
    BlockEncoding encoding = transfer.encoding;
    if (encoding == null) {
      return -1;
    }
    return transfer.length == encoding.rawBytes() ? encoding.encodedBytes() : encoding.rawBytes();
  }

  private Status open(Transfer transfer, int stored, int annotationBytes, MemorySegment buffer) {
    boolean encoded = header.codec(ONLY) != NOT_ENCODED;
    MemorySegment bytes = transfer.bytes();
    MemorySegment read = bytes.asSlice(0, stored);
    transfer.annotate(annotationBytes);
    MemorySegment annotation =
        MemorySegment.ofArray(transfer.annotation).asSlice(0, annotationBytes);
    switch (header.cipher()) {
      case ObjectCipher.NOT_ENCRYPTED -> {
        if (cipher != null && !cipher.readsUnencrypted()) {
          return Status.DENIED;
        }
        copyRead(stored, annotation);
        if (encoded) {
          read = buffer.asSlice(0, stored).copyFrom(read);
        }
      }
      case ObjectCipher.AES_256_GCM -> {
        if (cipher == null || !cipher.hasKey(header.keyId())) {
          return Status.DENIED;
        }
        int sealedBytes = stored + annotationBytes;
        MemorySegment encrypted = buffer.asSlice(0, sealedBytes + (long) ObjectCipher.TAG_BYTES);
        copyRead(0, encrypted.asSlice(0, sealedBytes));
        encrypted.asSlice(sealedBytes).copyFrom(header.tag(ONLY));
        boolean inPlace = encoded || annotationBytes > 0;
        MemorySegment plain = inPlace ? encrypted.asSlice(0, sealedBytes) : bytes;
        if (!cipher.decrypt(
            header.keyId(), header.nonce(ONLY), header.authenticated(), encrypted, plain)) {
          return Status.CORRUPT;
        }
        read = plain.asSlice(0, stored);
        if (annotationBytes > 0) {
          annotation.copyFrom(plain.asSlice(stored));
          if (!encoded) {
            bytes.copyFrom(read);
          }
        }
      }
      default -> {
        return Status.VERSION_MISMATCH;
      }
    }
    if (annotationBytes > 0 && Checksums.of(annotation) != header.annotationChecksum(ONLY)) {
      return Status.CORRUPT;
    }
    return decoded(transfer, read);
  }

  /** Copies bytes that were read behind the header, from an offset on. */
  private void copyRead(long from, MemorySegment target) {
    MemorySegment first = parts.get(1);
    long count = target.byteSize();
    long ofFirst = Math.clamp(first.byteSize() - from, 0, count);
    if (ofFirst > 0) {
      MemorySegment.copy(first, from, target, 0, ofFirst);
    }
    if (ofFirst < count) {
      MemorySegment.copy(
          parts.get(2), from + ofFirst - first.byteSize(), target, ofFirst, count - ofFirst);
    }
  }

  /** The last step of opening: decodes the block and checks it. */
  private Status decoded(Transfer transfer, MemorySegment read) {
    MemorySegment bytes = transfer.bytes();
    if (!BlockCodecs.isKnown(header.codec(ONLY))) {
      // Another node has a plug-in that is missing here.
      return Status.VERSION_MISMATCH;
    }
    if (header.codec(ONLY) != NOT_ENCODED) {
      try {
        BlockCodecs.byId(header.codec(ONLY)).decode(read, bytes);
      } catch (CodecException e) {
        return Status.CORRUPT;
      }
    }
    int checksum = header.checksum(ONLY);
    if (checksumOf(bytes) != checksum) {
      return Status.CORRUPT;
    }
    transfer.checksum = checksum;
    transfer.generation = header.generation(ONLY);
    transfer.parent = header.parent(ONLY);
    transfer.depth = header.depth(ONLY);
    return Status.OK;
  }

  private int checksumOf(MemorySegment bytes) {
    PartDigest made = digest;
    boolean asTheyCame = header.codec(ONLY) == NOT_ENCODED && !header.isEncrypted();
    return asTheyCame && made != null && made.bytes() == bytes.byteSize()
        ? made.checksum()
        : Checksums.of(bytes);
  }

  /** The buffer of puts. No other block has it, because the store reads it until the call ends. */
  private MemorySegment sealed(long bytes) {
    if (sealed.byteSize() < bytes) {
      sealed = Arena.ofAuto().allocate(bytes, Long.BYTES);
    }
    return sealed.asSlice(0, bytes);
  }
}
