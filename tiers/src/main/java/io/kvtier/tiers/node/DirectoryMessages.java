package io.kvtier.tiers.node;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The bodies of frames to and from the directory. */
public final class DirectoryMessages {
  /** Maximum entries in one ANNOUNCE. */
  public static final int ENTRIES_MAX = 4096;

  /** Maximum nodes that a LOCATED names for a block. */
  private static final int TOLD_MAX = 2;

  private static final int NOT_TOLD = 0xffff;

  private DirectoryMessages() {}

  /**
   * Blocks that have come to a node's memory or have left it.
   *
   * @param sequence the number of the announcement; 0 begins a new list
   * @param entries as {@link io.kvtier.tiers.directory.ChangeFeed} has them; at most {@link
   *     #ENTRIES_MAX}
   */
  @SuppressWarnings("ArrayRecordComponent")
  public record Announcement(long sequence, long[] entries) {
    /** Reads the body of an ANNOUNCE. */
    public static Announcement of(ByteBuffer body) throws FrameException {
      int bytes = body.remaining();
      if (bytes < Long.BYTES
          || bytes % Long.BYTES != 0
          || bytes > (ENTRIES_MAX + 1) * Long.BYTES
          || body.getLong(body.position()) < 0) {
        throw new FrameException("an ANNOUNCE has " + bytes + " bytes: that can't be");
      }
      long sequence = body.getLong();
      return new Announcement(sequence, read(body));
    }

    ByteBuffer body() {
      ByteBuffer out = Messages.little((entries.length + 1) * Long.BYTES).putLong(sequence);
      for (long entry : entries) {
        out.putLong(entry);
      }
      return out.flip();
    }
  }

  /** The body of a LOCATE: the hashes of blocks. */
  static ByteBuffer longs(long[] hashes) {
    ByteBuffer out = Messages.little(hashes.length * Long.BYTES);
    for (long hash : hashes) {
      out.putLong(hash);
    }
    return out.flip();
  }

  /** Reads the body of a LOCATE. */
  public static long[] hashes(ByteBuffer body) throws FrameException {
    int bytes = body.remaining();
    if (bytes == 0 || bytes % Long.BYTES != 0 || bytes > Messages.KEYS_MAX * Long.BYTES) {
      throw new FrameException("a LOCATE has " + bytes + " bytes: that can't be");
    }
    return read(body);
  }

  private static long[] read(ByteBuffer body) {
    long[] values = new long[body.remaining() / Long.BYTES];
    for (int i = 0; i < values.length; i++) {
      values[i] = body.getLong();
    }
    return values;
  }

  /** The nodes that have the blocks of a LOCATE, by the numbers of their starts. */
  public static final class Located {
    private final List<long[]> nodes;

    private Located(List<long[]> nodes) {
      this.nodes = nodes;
    }

    /** The nodes of each block. At most two nodes of a block are told. */
    public static Located of(List<long[]> nodes) {
      return new Located(
          nodes.stream()
              .map(some -> Arrays.copyOf(some, Math.min(some.length, TOLD_MAX)))
              .toList());
    }

    /** The nodes of a block. */
    long[] nodes(int block) {
      return nodes.get(block);
    }

    /** The body of a LOCATED: the number of nodes, the nodes, and two places among them a block. */
    public ByteBuffer body() {
      Map<Long, Integer> places = new LinkedHashMap<>();
      for (long[] some : nodes) {
        for (long node : some) {
          places.putIfAbsent(node, places.size());
        }
      }
      ByteBuffer out =
          Messages.little(
              Integer.BYTES + places.size() * Long.BYTES + nodes.size() * TOLD_MAX * Short.BYTES);
      out.putInt(places.size());
      places.keySet().forEach(out::putLong);
      for (long[] some : nodes) {
        for (int i = 0; i < TOLD_MAX; i++) {
          Integer place = i < some.length ? places.get(some[i]) : null;
          out.putShort((short) (place == null ? NOT_TOLD : place));
        }
      }
      return out.flip();
    }

    /** Reads the body of a LOCATED, of an answer about a number of blocks. */
    static Located of(ByteBuffer body, int blocks) throws FrameException {
      int bytes = body.remaining();
      int count = bytes < Integer.BYTES ? -1 : body.getInt();
      if (count < 0
          || count > TOLD_MAX * blocks
          || body.remaining() != count * Long.BYTES + blocks * TOLD_MAX * Short.BYTES) {
        throw new FrameException(
            "a LOCATED has " + bytes + " bytes, for a LOCATE about " + blocks + " blocks");
      }
      long[] all = new long[count];
      for (int i = 0; i < count; i++) {
        all[i] = body.getLong();
      }
      List<long[]> nodes = new ArrayList<>();
      for (int block = 0; block < blocks; block++) {
        long[] some = new long[TOLD_MAX];
        int told = 0;
        for (int i = 0; i < TOLD_MAX; i++) {
          int place = body.getShort() & 0xffff;
          if (place < count) {
            some[told++] = all[place];
          } else if (place != NOT_TOLD) {
            throw new FrameException("a LOCATED names node " + place + " of " + count);
          }
        }
        nodes.add(Arrays.copyOf(some, told));
      }
      return new Located(nodes);
    }
  }
}
