package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** What a report tells of the daemon's process. */
final class ProcessFilesTest {
  @Test
  void commandLine_secretWithBlanks_isHiddenAndTheRestStays() {
    assertEquals(
        "kvtierd --set object.encryption.key_command=(hidden) --set=object.s3.proxy="
            + "http://(hidden)@proxy:1 --set access.tokens=/etc/t --socket /run/s",
        ProcessFiles.commandLine(
            String.join(
                "\0",
                "kvtierd",
                "--set",
                "object.encryption.key_command=fetch --pin 1234",
                "--set=object.s3.proxy=http://joe:p w@proxy:1",
                "--set",
                "access.tokens=/etc/t",
                "--socket",
                "/run/s")));
  }
}
