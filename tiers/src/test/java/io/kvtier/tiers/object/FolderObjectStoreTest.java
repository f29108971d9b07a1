package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.linux.FileModeMask;
import io.kvtier.tiers.testing.ChildJvm;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class FolderObjectStoreTest extends ObjectStoreContract {
  @TempDir private Path folder;

  @Override
  ObjectStore open() throws IOException {
    return new FolderObjectStore(folder, 2);
  }

  private List<String> incoming() throws IOException {
    try (Stream<Path> files = Files.list(folder.resolve(".incoming"))) {
      return files.map(file -> file.getFileName().toString()).toList();
    }
  }

  @Test
  void put_done_leavesNothingBehind() throws IOException {
    put("a/object", bytes(1, 100_000));
    put("a/object", bytes(1, 100_000));
    assertEquals(List.of(), incoming());
  }

  @Test
  void put_byDefault_isReadByNobodyElse() throws IOException {
    put("00112233445566778899aabbccddeeff/00/0011", bytes(1, 100));
    try (Stream<Path> made = Files.walk(folder)) {
      for (Path one : (Iterable<Path>) made.filter(path -> !path.equals(folder))::iterator) {
        assertEquals(
            Files.isDirectory(one) ? "rwx------" : "rw-------", modeOf(one), one::toString);
      }
    }
  }

  @Test
  void open_ofFoldersOfAnEarlierVersion_closesThem_andNoOther() throws IOException {
    Path ours = Files.createDirectory(folder.resolve("00112233445566778899aabbccddeeff"));
    Path theirs = Files.createDirectory(folder.resolve("somebody-elses"));
    for (Path one : List.of(ours, theirs, folder.resolve(".incoming"))) {
      Files.setPosixFilePermissions(one, PosixFilePermissions.fromString("rwxr-xr-x"));
    }
    new FolderObjectStore(folder, 1).close();
    assertEquals("rwx------", modeOf(ours));
    assertEquals("rwx------", modeOf(folder.resolve(".incoming")));
    assertEquals("rwxr-xr-x", modeOf(theirs));
  }

  @Test
  void put_intoAStoreThatAGroupShares_isTheGroupsWhateverTheUmask() throws IOException {
    int before = FileModeMask.keepToOwner();
    try (ObjectStore shared = new FolderObjectStore(folder.resolve("shared"), 1, 0770)) {
      assertEquals(
          new StoreResult.Done(10),
          await(shared.put("a/object", List.of(bytes(1, 10)), false, TIMEOUT_NS)));
      assertEquals("rwxrwx---", modeOf(folder.resolve("shared/.incoming")));
      assertEquals("rwxrwx---", modeOf(folder.resolve("shared/a")));
      assertEquals("rw-rw----", modeOf(folder.resolve("shared/a/object+")));
    } finally {
      FileModeMask.set(before);
    }
  }

  private static String modeOf(Path path) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
  }

  @Test
  void open_leftovers_goAfterADay() throws IOException {
    Path old = Files.writeString(folder.resolve(".incoming/old"), "half of a block");
    Path young = Files.writeString(folder.resolve(".incoming/young"), "half of a block");
    long now = System.currentTimeMillis();
    Files.setLastModifiedTime(old, FileTime.fromMillis(now - TimeUnit.HOURS.toMillis(25)));
    Files.setLastModifiedTime(young, FileTime.fromMillis(now - TimeUnit.HOURS.toMillis(23)));
    new FolderObjectStore(folder, 1, FolderObjectStore.OWNER_ONLY, () -> now).close();
    assertFalse(Files.exists(old));
    assertTrue(Files.exists(young));
  }

  @Test
  void removeUnfinished_filesOfDeadWriters_goWhenTheyAreOld() throws IOException {
    Path old = Files.writeString(folder.resolve(".incoming/old"), "half of a block");
    Path young = Files.writeString(folder.resolve(".incoming/young"), "half of a block");
    Files.setLastModifiedTime(old, FileTime.fromMillis(1000));
    Files.setLastModifiedTime(young, FileTime.fromMillis(3000));
    assertEquals(new StoreResult.Done(1), await(store.removeUnfinished(2000, TIMEOUT_NS)));
    assertEquals(List.of("young"), incoming());
  }

  @Test
  void list_filesOfOthers_areNoObjects() throws IOException {
    put("a/object", bytes(1, 10));
    Files.writeString(folder.resolve(".incoming/half"), "half of a block");
    Files.writeString(folder.resolve("a/README"), "not ours");
    StoreResult.Page page =
        assertInstanceOf(StoreResult.Page.class, await(store.list("", "", 10, TIMEOUT_NS)));
    assertEquals(List.of("a/object"), page.objects().stream().map(StoredObject::name).toList());
  }

  @Test
  void anyCall_folderGone_isUnavailable() throws IOException {
    Files.delete(folder.resolve(".incoming"));
    assertInstanceOf(StoreResult.Unavailable.class, get("object", 0, arena.allocate(10)));
    assertInstanceOf(StoreResult.Unavailable.class, put("object", bytes(1, 10)));
    StoreResult gone = new StoreResult.Unavailable("the folder " + folder + " is gone");
    assertEquals(gone, await(store.list("", "", 10, TIMEOUT_NS)));
    assertEquals(gone, await(store.delete(List.of("object"), TIMEOUT_NS)));
  }

  @Test
  void anyCall_aFileInPlaceOfTheFolder_isUnavailable() throws IOException {
    Files.delete(folder.resolve(".incoming"));
    Files.delete(folder);
    Files.writeString(folder, "no folder");
    StoreResult gone = new StoreResult.Unavailable("the folder " + folder + " is gone");
    assertEquals(gone, put("object", bytes(1, 10)));
    assertEquals(gone, get("object", 0, arena.allocate(10)));
    assertEquals(gone, await(store.list("", "", 10, TIMEOUT_NS)));
  }

  @Test
  void open_parentMissing_isRefused_andNothingIsMade() {
    Path deep = folder.resolve("unmounted/kvtier");
    IOException refused = assertThrows(IOException.class, () -> new FolderObjectStore(deep, 1));
    assertEquals(
        "'" + folder + "/unmounted' does not exist: is its file system mounted?",
        refused.getMessage());
    assertFalse(Files.exists(deep.getParent()));
  }

  @Test
  void open_noFolder_saysWhatItIs() throws IOException {
    Path file = Files.writeString(folder.resolve("file"), "no folder");
    IOException refused = assertThrows(IOException.class, () -> new FolderObjectStore(file, 1));
    assertEquals("'" + file + "' is there already as a file", refused.getMessage());
    IOException proc =
        assertThrows(IOException.class, () -> new FolderObjectStore(Path.of("/proc/x"), 1));
    assertEquals("'/proc' takes no folders: is its file system mounted?", proc.getMessage());
  }

  /** Everything that has a name after a kill is whole, and all that was done is there. */
  @Test
  void kill_whileWriting_leavesWholeObjectsOnly() throws Exception {
    long last = 0;
    for (int round = 0; round < 3; round++) {
      last =
          ChildJvm.killAfterLines(
              FolderVictim.class, 20, folder.toString(), String.valueOf(last + 1));
    }
    long count = 0;
    String after = "";
    boolean more = true;
    while (more) {
      StoreResult.Page page =
          assertInstanceOf(
              StoreResult.Page.class, await(store.list("v/", after, 1000, TIMEOUT_NS)));
      for (StoredObject object : page.objects()) {
        long number = Long.parseLong(object.name().substring(object.name().lastIndexOf('/') + 1));
        MemorySegment slot = arena.allocate(FolderVictim.BYTES);
        assertEquals(new StoreResult.Done(FolderVictim.BYTES), get(object.name(), 0, slot));
        assertSameBytes(bytes(number, FolderVictim.BYTES), slot);
        count++;
        after = object.name();
      }
      more = page.more();
    }
    assertTrue(count >= last, count + " objects of " + last + " that were done");
  }
}
