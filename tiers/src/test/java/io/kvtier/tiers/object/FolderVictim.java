package io.kvtier.tiers.object;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/** Puts objects into a folder one after the other and prints the number of each, until killed. */
final class FolderVictim {
  static final int BYTES = 700_000;

  private FolderVictim() {}

  public static void main(String[] arguments) throws Exception {
    FolderObjectStore store = new FolderObjectStore(Path.of(arguments[0]), 1);
    MemorySegment memory = Arena.global().allocate(BYTES);
    byte[] random = new byte[BYTES];
    for (long number = Long.parseLong(arguments[1]); ; number++) {
      new Random(number).nextBytes(random);
      memory.copyFrom(MemorySegment.ofArray(random));
      String name = "v/%02x/%d".formatted(number % 4, number);
      StoreResult result =
          store.put(name, List.of(memory), true, TimeUnit.MINUTES.toNanos(1)).result().join();
      if (!(result instanceof StoreResult.Done || result instanceof StoreResult.Present)) {
        throw new IllegalStateException(name + ": " + result);
      }
      System.out.println(number);
    }
  }
}
