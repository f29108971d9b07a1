package io.kvtier.tiers.node;

import io.kvtier.tiers.object.BlockKey;
import io.kvtier.tiers.transfer.TracedRequest;
import io.kvtier.tiers.transfer.Transfer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/** The bodies of frames. */
public final class Messages {
  /** Maximum keys in one ASK. */
  public static final int KEYS_MAX = 2048;

  /** Maximum blocks in one FETCH, and leases in one RELEASE. */
  public static final int FETCHED_MAX = 64;

  private static final int TEXT_BYTES_MAX = 1024;
  private static final int TRACE_BYTES = 3 * Long.BYTES;
  private static final int KEY_BYTES_MAX = 32;

  private Messages() {}

  /**
   * The name and the credentials of a reader, in a HELLO.
   *
   * @param token empty where nodes need none
   */
  public record Hello(String name, String token) {
    /** Reads the body of a HELLO. */
    public static Hello of(ByteBuffer body) throws FrameException {
      return new Hello(text(body), text(body));
    }

    ByteBuffer body() {
      byte[] called = name.getBytes(StandardCharsets.UTF_8);
      byte[] secret = token.getBytes(StandardCharsets.UTF_8);
      return little(8 + called.length + secret.length)
          .putInt(called.length)
          .put(called)
          .putInt(secret.length)
          .put(secret)
          .flip();
    }
  }

  /**
   * Names of blocks of one namespace and group.
   *
   * @param high the upper half of the namespace's fingerprint
   * @param blockBytes the expected length of a block in a FETCH; 0 in an ASK
   * @param keys one after the other, from the position to the limit
   */
  public record Keys(
      long high, long low, int group, int keyBytes, int count, int blockBytes, ByteBuffer keys) {
    private static final int HEAD_BYTES = 32;

    /** Reads the body of a FETCH. */
    public static Keys ofFetch(ByteBuffer body) throws FrameException {
      Keys keys = of(body);
      if (keys.count > FETCHED_MAX || keys.blockBytes == 0) {
        throw new FrameException(
            "a FETCH names "
                + keys.count
                + " blocks of "
                + keys.blockBytes
                + " bytes, expected 1 to "
                + FETCHED_MAX
                + " blocks of some bytes");
      }
      return keys;
    }

    /** Reads the body of an ASK. */
    public static Keys of(ByteBuffer body) throws FrameException {
      if (body.remaining() < HEAD_BYTES) {
        throw new FrameException("a body of " + body.remaining() + " bytes names no block");
      }
      Keys read =
          new Keys(
              body.getLong(),
              body.getLong(),
              body.getInt(),
              body.getInt(),
              body.getInt(),
              body.getInt(),
              body);
      if (read.group < 0
          || read.group > 0xffff
          || read.keyBytes < 1
          || read.keyBytes > KEY_BYTES_MAX
          || read.count < 1
          || read.count > KEYS_MAX
          || read.blockBytes < 0
          || body.remaining() != read.keyBytes * read.count) {
        throw new FrameException(
            "a frame names "
                + read.count
                + " keys of "
                + read.keyBytes
                + " bytes in group "
                + read.group
                + ", in "
                + body.remaining()
                + " bytes: that can't be");
      }
      return read;
    }

    /** The first blocks, in the same memory. */
    public Keys first(int blocks) {
      return new Keys(
          high,
          low,
          group,
          keyBytes,
          blocks,
          blockBytes,
          keys.slice(keys.position(), blocks * keyBytes));
    }

    /** The body of an ASK or FETCH. */
    ByteBuffer body() {
      return put(little(HEAD_BYTES + keys.remaining())).flip();
    }

    private ByteBuffer put(ByteBuffer out) {
      putHead(out, high, low, group, keyBytes, count, blockBytes);
      return out.put(keys.duplicate());
    }

    private static void putHead(
        ByteBuffer out, long high, long low, int group, int keyBytes, int count, int blockBytes) {
      out.putLong(high)
          .putLong(low)
          .putInt(group)
          .putInt(keyBytes)
          .putInt(count)
          .putInt(blockBytes);
    }
  }

  /**
   * Where the blocks of an ASK are.
   *
   * @param loadNs how long the node would take to load, from its lower tiers, those blocks that
   *     follow each other from the first; as estimated by the node
   * @param places a byte for each block: {@link Frame#ABSENT}, {@link Frame#IN_MEMORY} or {@link
   *     Frame#BELOW}
   */
  public record Places(long loadNs, ByteBuffer places) {
    /** The body of an ANSWER. */
    public ByteBuffer body() {
      return little(Long.BYTES + places.remaining()).putLong(loadNs).put(places.duplicate()).flip();
    }

    /** Reads the body of an ANSWER to an ASK about a number of blocks. */
    static Places of(ByteBuffer body, int count) throws FrameException {
      if (body.remaining() != Long.BYTES + count) {
        throw new FrameException(
            "an ANSWER has " + body.remaining() + " bytes, for an ASK about " + count + " blocks");
      }
      long loadNs = body.getLong();
      if (loadNs < 0) {
        throw new FrameException("loads are estimated to take " + loadNs + " ns");
      }
      return new Places(loadNs, body);
    }

    /** Whether a block is in memory. */
    boolean isInMemory(int block) {
      return places.get(places.position() + block) == Frame.IN_MEMORY;
    }

    private boolean isPresent(int block) {
      return places.get(places.position() + block) != Frame.ABSENT;
    }

    /** How many blocks from the first are in the node. */
    int run() {
      return run(this::isPresent);
    }

    /** How many blocks from the first are in the node's memory. */
    int memoryRun() {
      return run(this::isInMemory);
    }

    private int run(IntPredicate isPart) {
      int run = 0;
      while (run < places.remaining() && isPart.test(run)) {
        run++;
      }
      return run;
    }
  }

  /**
   * The namespace of blocks that are to be pushed.
   *
   * @param text the tenant, the block size and the properties
   */
  public record Space(long high, long low, String text) {
    /** Reads the body of a SPACE. */
    public static Space of(ByteBuffer body) throws FrameException {
      if (body.remaining() < 2 * Long.BYTES) {
        throw new FrameException("a body of " + body.remaining() + " bytes names no namespace");
      }
      return new Space(
          body.getLong(), body.getLong(), StandardCharsets.UTF_8.decode(body).toString());
    }
  }

  /** The body of a SPACE; null if the text is too long for one. */
  static @Nullable ByteBuffer spaceOf(Push push) {
    byte[] text = push.spaceText.getBytes(StandardCharsets.UTF_8);
    int bytes = 2 * Long.BYTES + text.length;
    return bytes > FrameDescriptor.BODY_BYTES_MAX
        ? null
        : little(bytes).putLong(push.high).putLong(push.low).put(text).flip();
  }

  /**
   * A block that is to be pushed.
   *
   * @param parent the fingerprint of the block before it in its sequence; 0: unknown
   * @param keys the key of the block, and perhaps that of the block before it
   */
  public record Reserve(int depth, int importance, boolean isEncoded, long parent, Keys keys) {
    private static final int HEAD_BYTES = 16;
    private static final int IMPORTANCE_MASK = 3;
    private static final int ENCODED = 4;

    /** Reads the body of a RESERVE. */
    public static Reserve of(ByteBuffer body) throws FrameException {
      if (body.remaining() < HEAD_BYTES) {
        throw new FrameException("a body of " + body.remaining() + " bytes reserves no block");
      }
      int depth = body.getInt();
      int flags = body.getInt();
      long parent = body.getLong();
      Keys keys = Keys.of(body);
      if (depth < 0
          || (flags & ~(IMPORTANCE_MASK | ENCODED)) != 0
          || keys.count > 2
          || keys.blockBytes == 0) {
        throw new FrameException(
            "a RESERVE names "
                + keys.count
                + " keys of a block of "
                + keys.blockBytes
                + " bytes at depth "
                + depth
                + " with flags "
                + Integer.toHexString(flags)
                + ": that can't be");
      }
      return new Reserve(depth, flags & IMPORTANCE_MASK, (flags & ENCODED) != 0, parent, keys);
    }
  }

  /** The body of a RESERVE. */
  static ByteBuffer reserveOf(Push push) {
    int keyBytes = (int) push.key.byteSize();
    int count = push.parentKey.byteSize() == keyBytes ? 2 : 1;
    ByteBuffer names = ByteBuffer.allocate(count * keyBytes).put(push.key.asByteBuffer());
    if (count == 2) {
      names.put(push.parentKey.asByteBuffer());
    }
    Keys keys =
        new Keys(push.high, push.low, push.group, keyBytes, count, push.length, names.flip());
    ByteBuffer out =
        little(Reserve.HEAD_BYTES + Keys.HEAD_BYTES + count * keyBytes)
            .putInt(push.depth)
            .putInt(push.importance | (push.isEncoded ? Reserve.ENCODED : 0))
            .putLong(push.parent);
    return keys.put(out).flip();
  }

  /**
   * The bytes that a node can still take, in each answer to a SPACE or RESERVE.
   *
   * @param unusedBytes memory that no block has
   * @param why a refusal in words; empty for none
   */
  public record Room(long unusedBytes, String why) {
    /** Reads the body of a GO, HAVE or NO. */
    static Room of(ByteBuffer body) throws FrameException {
      if (body.remaining() < Long.BYTES) {
        throw new FrameException("a body of " + body.remaining() + " bytes tells no room");
      }
      return new Room(body.getLong(), StandardCharsets.UTF_8.decode(body).toString());
    }

    /** The body of a GO, HAVE or NO. */
    public ByteBuffer body() {
      byte[] text = why.getBytes(StandardCharsets.UTF_8);
      int length = Math.min(text.length, TEXT_BYTES_MAX);
      return little(Long.BYTES + length).putLong(unusedBytes).put(text, 0, length).flip();
    }
  }

  /**
   * A block that a node wants as soon as the other one has it.
   *
   * @param withinNs how long the node waits for it, ns
   * @param keys the key of the block
   */
  public record Follow(long withinNs, Keys keys) {
    /** Reads the body of a FOLLOW. */
    public static Follow of(ByteBuffer body) throws FrameException {
      if (body.remaining() < Long.BYTES) {
        throw new FrameException("a body of " + body.remaining() + " bytes follows no block");
      }
      long withinNs = body.getLong();
      Keys keys = Keys.of(body);
      if (withinNs < 0 || keys.count != 1 || keys.blockBytes == 0) {
        throw new FrameException(
            "a FOLLOW names "
                + keys.count
                + " blocks of "
                + keys.blockBytes
                + " bytes, within "
                + withinNs
                + " ns: that can't be");
      }
      return new Follow(withinNs, keys);
    }
  }

  /** The body of a FOLLOW. */
  static ByteBuffer followOf(Transfer block, long withinNs) {
    Keys keys = keys(block, 1, block.length, ByteBuffer.wrap(block.key, 0, block.keyBytes));
    return keys.put(
            little(Long.BYTES + Keys.HEAD_BYTES + block.keyBytes).putLong(Math.max(0, withinNs)))
        .flip();
  }

  /**
   * The place of a PIECE in its block.
   *
   * @param units in how many equal parts the block is cut
   * @param from the first of these parts that the piece has
   * @param to the part after the last one
   */
  public record Piece(int units, int from, int to) {
    private static final int BYTES = 12;

    /**
     * Reads the body of a PIECE.
     *
     * @param blockBytes the length of the block
     * @param pieceBytes the length of the piece
     */
    static Piece of(ByteBuffer body, int blockBytes, int pieceBytes) throws FrameException {
      if (body.remaining() != BYTES) {
        throw new FrameException("a body of " + body.remaining() + " bytes is no place of a piece");
      }
      Piece piece = new Piece(body.getInt(), body.getInt(), body.getInt());
      if (piece.units < 1
          || blockBytes % piece.units != 0
          || piece.from < 0
          || piece.from >= piece.to
          || piece.to > piece.units
          || piece.bytes(blockBytes) != pieceBytes) {
        throw new FrameException(
            "a PIECE of "
                + pieceBytes
                + " bytes has the parts "
                + piece.from
                + " to "
                + piece.to
                + " of "
                + piece.units
                + " of a block of "
                + blockBytes
                + " bytes: that can't be");
      }
      return piece;
    }

    /** The body of a PIECE. */
    public ByteBuffer body() {
      return little(BYTES).putInt(units).putInt(from).putInt(to).flip();
    }

    /** Where the piece begins in its block. */
    public int offset(int blockBytes) {
      return blockBytes / units * from;
    }

    /** The length of the piece. */
    public long bytes(int blockBytes) {
      return (long) (blockBytes / units) * (to - from);
    }
  }

  /** The body of a FETCH of blocks of one namespace, group and length. */
  static ByteBuffer fetchOf(List<Transfer> blocks) {
    Transfer first = blocks.getFirst();
    ByteBuffer names = ByteBuffer.allocate(blocks.size() * first.keyBytes);
    for (Transfer one : blocks) {
      names.put(one.key, 0, one.keyBytes);
    }
    return keys(first, blocks.size(), first.length, names.flip()).body();
  }

  /** The body of a TRACE. */
  static ByteBuffer traceOf(TracedRequest request) {
    return little(TRACE_BYTES)
        .putLong(request.traceHigh())
        .putLong(request.traceLow())
        .putLong(request.spanId())
        .flip();
  }

  /** Reads the body of a TRACE. */
  public static TracedRequest trace(ByteBuffer body) throws FrameException {
    if (body.remaining() != TRACE_BYTES) {
      throw new FrameException(
          "a TRACE has " + body.remaining() + " bytes, expected " + TRACE_BYTES);
    }
    long high = body.getLong();
    long low = body.getLong();
    long span = body.getLong();
    if ((high | low) == 0 || span == 0) {
      throw new FrameException("a TRACE has ids of zeros");
    }
    return new TracedRequest(high, low, span);
  }

  /** The body of a RELEASE. */
  static ByteBuffer releaseOf(long[] leases, int count) {
    ByteBuffer out = little(count * Long.BYTES);
    out.asLongBuffer().put(leases, 0, count);
    return out;
  }

  /** Reads the body of a RELEASE. */
  public static long[] leases(ByteBuffer body) throws FrameException {
    int bytes = body.remaining();
    if (bytes == 0 || bytes % Long.BYTES != 0 || bytes > FETCHED_MAX * Long.BYTES) {
      throw new FrameException(
          "a RELEASE has "
              + bytes
              + " bytes, expected 1 to "
              + FETCHED_MAX
              + " leases of "
              + Long.BYTES
              + " bytes");
    }
    long[] leases = new long[bytes / Long.BYTES];
    body.asLongBuffer().get(leases);
    return leases;
  }

  /** The body of an ASK, of questions that go together. */
  static ByteBuffer keysOf(List<Question> questions) {
    BlockKey first = questions.getFirst().name;
    int keyBytes = first.key().length;
    int count = questions.size();
    ByteBuffer out = little(Keys.HEAD_BYTES + count * keyBytes);
    Keys.putHead(
        out, first.namespaceHigh(), first.namespaceLow(), first.group(), keyBytes, count, 0);
    questions.forEach(one -> one.name.putKey(out));
    return out.flip();
  }

  private static Keys keys(Transfer block, int count, int blockBytes, ByteBuffer names) {
    return new Keys(
        block.namespaceHigh,
        block.namespaceLow,
        block.group,
        block.keyBytes,
        count,
        blockBytes,
        names);
  }

  private static String text(ByteBuffer body) throws FrameException {
    int bytes = body.remaining() < Integer.BYTES ? -1 : body.getInt();
    if (bytes < 0 || bytes > TEXT_BYTES_MAX || bytes > body.remaining()) {
      throw new FrameException("a text of " + bytes + " bytes does not fit into its frame");
    }
    byte[] utf8 = new byte[bytes];
    body.get(utf8);
    return new String(utf8, StandardCharsets.UTF_8);
  }

  static ByteBuffer little(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }
}
