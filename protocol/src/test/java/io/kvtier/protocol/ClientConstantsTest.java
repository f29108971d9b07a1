package io.kvtier.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import org.junit.jupiter.api.Test;

class ClientConstantsTest {
  @Test
  void generatedPython_isUpToDate() throws IOException {
    assertEquals(
        ClientConstants.python(),
        Files.readString(ClientConstants.pythonFile()),
        "client-py/src/kvtier/_protocol.py is stale: run scripts/generate");
  }

  @Test
  void generatedHeader_isUpToDate() throws IOException {
    assertEquals(
        ClientConstants.header(),
        Files.readString(ClientConstants.headerFile()),
        "client-py/src/kvtier/_protocol.h is stale: run scripts/generate");
  }
}
