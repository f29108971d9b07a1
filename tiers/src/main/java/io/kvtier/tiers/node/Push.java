package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * A block that another node shall have, from its slot here. The slot stays as it is until the push
 * is over. Confined to the reader that has taken it, and to its owner before and after that.
 */
public final class Push {
  final long high;
  final long low;
  final String spaceText;
  final int group;
  final MemorySegment key;
  final MemorySegment parentKey;
  final long parent;
  final int depth;
  final int importance;
  final boolean isEncoded;
  final int length;
  final int checksum;
  final MemorySegment bytes;
  private final Consumer<Push> whenOver;

  /** The nodes that do not take the block. */
  private final List<NodePeer> refusing = new ArrayList<>(1);

  /** How often a connection broke while the block was under way. */
  int breaks;

  private Status status = Status.UNAVAILABLE;
  private String why = "";

  /**
   * The place of a block.
   *
   * @param high the upper half of the namespace's fingerprint
   * @param spaceText the text of the namespace, of which the fingerprint is made
   * @param key exactly as long as the block's key
   */
  public record Name(long high, long low, String spaceText, int group, MemorySegment key) {}

  /**
   * The properties of a block that eviction policies use.
   *
   * @param parentKey the key of the block before it in its sequence; of length 0: unknown
   * @param parent the fingerprint of the block before it; 0: unknown
   */
  public record Rank(MemorySegment parentKey, long parent, int depth, int importance) {}

  /**
   * A push that has not begun.
   *
   * @param checksum made by the block's writer
   * @param whenOver told when no node reads the slot any more; on the thread of a reader
   */
  public Push(
      Name name,
      Rank rank,
      boolean isEncoded,
      int checksum,
      MemorySegment bytes,
      Consumer<Push> whenOver) {
    high = name.high;
    low = name.low;
    spaceText = name.spaceText;
    group = name.group;
    key = name.key;
    parentKey = rank.parentKey;
    parent = rank.parent;
    depth = rank.depth;
    importance = rank.importance;
    this.isEncoded = isEncoded;
    this.checksum = checksum;
    this.bytes = bytes;
    this.whenOver = whenOver;
    length = Math.toIntExact(bytes.byteSize());
  }

  /** The length of the block. */
  public int length() {
    return length;
  }

  /**
   * How the push ended: OK, EXISTS if the other node had the block, or the reason of the last node
   * that did not take it. UNAVAILABLE: no node could be reached.
   */
  public Status status() {
    return status;
  }

  /** The reason in words; may be empty. */
  public String why() {
    return why;
  }

  /** Notes why a node has not taken the block now. */
  void refused(Status reason, String words) {
    status = reason;
    why = words;
  }

  /** A node is not asked again. */
  void spare(NodePeer peer) {
    if (!refusing.contains(peer)) {
      refusing.add(peer);
    }
  }

  /** Whether a node is not asked again. */
  boolean spares(NodePeer peer) {
    return refusing.contains(peer);
  }

  /** Ends the push as it was refused last, or well. */
  void end() {
    whenOver.accept(this);
  }

  /** Ends the push. */
  void end(Status reason) {
    status = reason;
    whenOver.accept(this);
  }
}
