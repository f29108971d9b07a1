package io.kvtier.daemon.node;

import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.node.ucx.UcxFabric;
import java.io.IOException;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/** Links of which one side has UCX: blocks stay on the link. */
@ParameterizedClass
@ValueSource(booleans = {true, false})
final class UcxOnOneSideTest extends UcxTransportTest {
  private final boolean hasConnecting;

  UcxOnOneSideTest(boolean hasConnecting) {
    this.hasConnecting = hasConnecting;
  }

  @Override
  @Nullable UcxFabric ofConnecting() throws IOException {
    return hasConnecting ? UcxLibrary.fabric() : null;
  }

  @Override
  @Nullable UcxFabric ofAccepting() throws IOException {
    return hasConnecting ? null : UcxLibrary.fabric();
  }

  @Override
  boolean isSettled(@Nullable NodeLink here, @Nullable NodeLink there) {
    return here != null && there != null && !here.usesFabric() && !there.usesFabric();
  }
}
