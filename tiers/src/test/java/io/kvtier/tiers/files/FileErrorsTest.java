package io.kvtier.tiers.files;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What Java says with a path alone, in words. */
final class FileErrorsTest {
  @TempDir private Path folder;

  @Test
  void ofMaking_noRight_namesTheFolderThatIsThere() {
    String missing = folder.resolve("state/ssd").toString();
    assertEquals(
        "no permission to write in '" + folder + "'",
        FileErrors.ofMaking(new AccessDeniedException(missing)));
    assertEquals(
        "no permission to write in '" + folder + "'",
        FileErrors.ofMaking(new AccessDeniedException(folder.toString())));
  }

  @Test
  void ofMaking_noFolderAbove_namesIt_orSaysThatItTakesNone() {
    assertEquals(
        "'" + folder.resolve("a") + "' does not exist",
        FileErrors.ofMaking(new NoSuchFileException(folder.resolve("a/b").toString())));
    assertEquals(
        "'" + folder + "' takes no folders",
        FileErrors.ofMaking(new NoSuchFileException(folder.resolve("b").toString())));
    assertEquals(
        "'" + folder + "' is there already as a file",
        FileErrors.ofMaking(new FileAlreadyExistsException(folder.toString())));
  }
}
