package io.kvtier.client.internal.local;

import io.kvtier.client.BlockView;
import io.kvtier.client.internal.session.Call;
import io.kvtier.client.internal.session.Session;
import io.kvtier.client.internal.session.Slabs;
import io.kvtier.client.internal.shared.Log;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** A leased block over the call that was granted it. Reused for the next block. */
final class LocalBlockView implements BlockView {
  private @Nullable Session session;
  private @Nullable Call call;
  private @Nullable MemorySegment slab;
  private boolean corrupt;

  /** Shows the block that a call was granted. */
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

  /** Whether a verification found that the bytes do not match their checksum. */
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

  @Override
  public MemorySegment slab() {
    MemorySegment some = slab;
    if (some == null) {
      throw new IllegalStateException("no lease is held");
    }
    return some;
  }

  @Override
  public long offset() {
    return call().offset(0);
  }

  @Override
  public int length() {
    return call().length(0);
  }

  @Override
  public MemorySegment segment() {
    return slab().asSlice(offset(), length());
  }

  @Override
  public TierId tier() {
    return call().tier(0);
  }

  @Override
  public int checksum() {
    return call().checksum(0);
  }

  @Override
  public boolean mustVerify() {
    return (call().flags(0) & CompletionDescriptor.BLOCK_FLAG_VERIFY) != 0;
  }

  @Override
  public boolean verify() {
    boolean matches = Copies.checksum(segment()) == checksum();
    corrupt |= !matches && !hasEnded();
    return matches;
  }

  @Override
  public boolean hasEnded() {
    Session some = session;
    return some == null || !some.lifetime().holdsLeases(call().value());
  }
}
