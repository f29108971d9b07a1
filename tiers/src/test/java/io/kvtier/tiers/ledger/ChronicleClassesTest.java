package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertNotNull;

import net.openhft.chronicle.hash.VanillaGlobalMutableState;
import net.openhft.chronicle.values.Values;
import org.junit.jupiter.api.Test;

class ChronicleClassesTest {
  @Test
  void build_classIsThere_nothingIsCompiledAtStart() {
    Class<?> used = Values.nativeClassFor(VanillaGlobalMutableState.class);
    // A class that was compiled just now has no file.
    assertNotNull(used.getResource(used.getSimpleName() + ".class"), used.getName());
  }
}
