package io.kvtier.client;

import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * A leased block, seen through an object that is used again for the next one. What was read counts
 * only when {@link #hasEnded} is still false after the reading.
 */
public final class BlockView {
  private @Nullable Session session;
  private @Nullable Call call;
  private @Nullable MemorySegment slab;
  private boolean corrupt;

  BlockView() {}

  /** Looks at the block that a call was granted. */
  Status show(Session of, Call granted) {
    try {
      slab = of.wires().slabs().get(granted.slab(0), false);
      session = of;
      call = granted;
      return Status.OK;
    } catch (IOException e) {
      Log.warn("a lease could not be mapped", e);
      hide();
      return Slabs.status(e);
    }
  }

  void hide() {
    session = null;
    call = null;
    slab = null;
    corrupt = false;
  }

  /** Whether the block's bytes were seen not to match their checksum. */
  boolean isCorrupt() {
    return corrupt;
  }

  boolean isShown() {
    return call != null;
  }

  @Nullable Session session() {
    return session;
  }

  @Nullable Call callOrNull() {
    return call;
  }

  private Call call() {
    Call some = call;
    if (some == null) {
      throw new IllegalStateException("no lease is held");
    }
    return some;
  }

  /** The slab that the block is in, read-only. */
  public MemorySegment slab() {
    MemorySegment some = slab;
    if (some == null) {
      throw new IllegalStateException("no lease is held");
    }
    return some;
  }

  /** Where the block begins in the slab. */
  public long offset() {
    return call().offset(0);
  }

  /** The block's bytes. */
  public int length() {
    return call().length(0);
  }

  /** The block alone, read-only. */
  public MemorySegment segment() {
    return slab().asSlice(offset(), length());
  }

  /** The tier that the block was found in. */
  public TierId tier() {
    return call().tier(0);
  }

  /** The CRC32C that the daemon made of the bytes. */
  public int checksum() {
    return call().checksum(0);
  }

  /** Whether another living process was once allowed to write where the block is. */
  public boolean mustVerify() {
    return (call().flags(0) & CompletionDescriptor.BLOCK_FLAG_VERIFY) != 0;
  }

  /**
   * Whether the bytes match their checksum. Where they do not, the release tells the daemon, which
   * looks for itself.
   */
  public boolean verify() {
    boolean matches = Copies.checksum(segment()) == checksum();
    corrupt |= !matches && !hasEnded();
    return matches;
  }

  /** Whether what is read now no longer counts. */
  public boolean hasEnded() {
    Session some = session;
    return some == null || !some.holdsLeases(call().value);
  }
}
