package io.kvtier.protocol.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.junit.jupiter.api.Test;

class MachineTest {
  @Test
  void nameOfTheJdk_isThatArchitecture() {
    assertEquals(Machine.X86_64, Machine.of("amd64"));
    assertEquals(Machine.X86_64, Machine.of("x86_64"));
    assertEquals(Machine.AARCH64, Machine.of("aarch64"));
  }

  @Test
  void thisMachine_isKnown() {
    assertEquals(Machine.of(System.getProperty("os.arch")), Machine.current());
    assertNull(Machine.refusal());
  }

  @Test
  void otherArchitecture_isRefusedByItsNameWithWhatToDo() {
    assertNull(Machine.of("riscv64"));
    assertEquals(
        "this Java runtime is for the processor architecture 'riscv64'; expected x86-64 or 64-bit"
            + " Arm: use such a machine, and a runtime for it",
        Machine.refusal("riscv64"));
  }
}
