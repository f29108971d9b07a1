package io.kvtier.tiers.gpu;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.UnixSocket;
import java.util.List;

/**
 * Memory that an engine made by CUDA's virtual memory management, as torch does for its expandable
 * segments: pieces that lie one behind the other, each exported as a descriptor. It can be opened
 * once, as the descriptors are of no use after that.
 */
public final class PassedMemory implements DeviceMemory, AutoCloseable {
  /**
   * One allocation.
   *
   * @param bytes as much as the engine has mapped of it, which is all
   */
  public record Piece(Descriptor descriptor, long bytes) {}

  private final List<Piece> pieces;
  private final long bytes;

  /**
   * Some pieces, whose descriptors are this one's from now on.
   *
   * @throws ArithmeticException when all together are beyond 64 bits
   */
  public PassedMemory(List<Piece> pieces) {
    this.pieces = List.copyOf(pieces);
    this.bytes = pieces.stream().mapToLong(Piece::bytes).reduce(0, Math::addExact);
  }

  /** In the order of their addresses. */
  public List<Piece> pieces() {
    return pieces;
  }

  /** Of all pieces. */
  public long bytes() {
    return bytes;
  }

  /** Lets go of the descriptors; what was opened by them stays open. */
  @Override
  public void close() {
    for (Piece piece : pieces) {
      UnixSocket.discard(piece.descriptor());
    }
  }

  @Override
  public String toString() {
    return bytes + " bytes in " + pieces.size() + " pieces";
  }
}
