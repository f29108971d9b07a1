package io.kvtier.tiers.files;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

class LockFileTest {
  private static final int NOBODY = 65534;

  @TempDir private Path folder;

  @Test
  void take_makesAFileThatOthersCannotOpen() throws IOException {
    Path file = folder.resolve("lock");
    try (FileChannel taken = LockFile.take(file)) {
      assertNotNull(taken);
      assertEquals("rw-------", modeOf(file));
    }
  }

  @Test
  void take_ofAFileOfAnEarlierVersion_closesItToOthers() throws IOException {
    Path file = Files.createFile(folder.resolve("lock"));
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
    try (FileChannel taken = LockFile.take(file)) {
      assertNotNull(taken);
      assertEquals("rw-------", modeOf(file));
    }
  }

  @Test
  void take_ofALink_leavesWhatItLeadsTo() throws IOException {
    Path other = Files.createFile(folder.resolve("other"));
    Path file = Files.createSymbolicLink(folder.resolve("lock"), other);
    refused(file, "no plain file");
  }

  @Test
  @Timeout(value = 30, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void take_ofAFifoThatNobodyReads_isRefusedAtOnce() throws Exception {
    Path file = folder.resolve("lock");
    assertEquals(0, new ProcessBuilder("mkfifo", file.toString()).start().waitFor());
    refused(file, "no plain file");
  }

  @Test
  void take_ofAnotherUsersFile_saysWhose() throws IOException {
    assumeTrue(OwnFiles.ownerOf(folder) == 0, "only root can make files of others");
    Path file = Files.createFile(folder.resolve("lock"));
    Files.setAttribute(file, "unix:uid", NOBODY);
    refused(file, "belongs to user " + NOBODY);
  }

  @Test
  void holder_ofAFileOfAnotherProcess_namesIt() throws Exception {
    Path file = folder.resolve("lock");
    Process process =
        new ProcessBuilder(
                "python3",
                "-c",
                "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.lockf(f,fcntl.LOCK_EX);"
                    + " print('held',flush=True); sys.stdin.read()",
                file.toString())
            .start();
    try (var out = process.inputReader()) {
      assertEquals("held", out.readLine());
      assertNull(LockFile.take(file));
      String holder = LockFile.holder(file);
      assertTrue(holder.startsWith("process " + process.pid() + " (python3"), holder);
    } finally {
      process.destroyForcibly();
      assertTrue(process.waitFor(30, TimeUnit.SECONDS));
    }
  }

  private static void refused(Path file, String why) {
    IOException refused = assertThrows(IOException.class, () -> LockFile.take(file));
    assertTrue(String.valueOf(refused.getMessage()).contains(why), refused::getMessage);
  }

  private static String modeOf(Path file) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(file));
  }
}
