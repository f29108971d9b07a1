package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Copies past the caches, with the CRC32C made on the way, one pass over the bytes: what no copy of
 * the JDK does. The C core is the Python client's ({@code client-py/src/kvtier/_crc32c.c}),
 * compiled into this module's resources where the build had a C compiler.
 */
@SuppressWarnings("restricted") // the functions are our own, their lengths those of the segments
public final class NativeCopy {
  private static final Logger LOG = LoggerFactory.getLogger(NativeCopy.class);
  private static final @Nullable NativeCopy INSTANCE = load();

  private final MethodHandle copy;
  private final MethodHandle copyCrc32c;

  private NativeCopy(MethodHandle copy, MethodHandle copyCrc32c) {
    this.copy = copy;
    this.copyCrc32c = copyCrc32c;
  }

  /** The native copy, or null on a machine that it was not built for. */
  public static @Nullable NativeCopy get() {
    return INSTANCE;
  }

  /**
   * Copies all of the source to the start of the target.
   *
   * @param target at least as long as the source
   */
  public void copy(MemorySegment source, MemorySegment target) {
    try {
      copy.invokeExact(target.asSlice(0, source.byteSize()), source, source.byteSize());
    } catch (RuntimeException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * As {@link #copy}, and makes the checksum of what is stored, whatever happens to the source
   * meanwhile.
   *
   * @param crc the CRC32C of the data before, 0 when there is none
   * @param target at least as long as the source
   * @return the CRC32C of both together
   */
  public int copyCrc32c(int crc, MemorySegment source, MemorySegment target) {
    try {
      return (int)
          copyCrc32c.invokeExact(
              crc, target.asSlice(0, source.byteSize()), source, source.byteSize());
    } catch (RuntimeException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  private static @Nullable NativeCopy load() {
    String name = "/native/linux-" + Machine.current().kernelName() + "/libkvtier_copy.so";
    try (InputStream library = NativeCopy.class.getResourceAsStream(name)) {
      if (library == null) {
        LOG.info("{} is not in this build: copies are made in Java", name);
        return null;
      }
      Path file = Files.createTempFile("kvtier-copy", ".so");
      try {
        Files.copy(library, file, StandardCopyOption.REPLACE_EXISTING);
        return link(SymbolLookup.libraryLookup(file, Arena.global()));
      } finally {
        Files.delete(file);
      }
    } catch (IOException | IllegalArgumentException e) {
      LOG.warn(
          "{} can't be loaded (is java.io.tmpdir mounted noexec?): copies are made in Java",
          name,
          e);
      return null;
    }
  }

  private static NativeCopy link(SymbolLookup library) {
    Linker linker = Linker.nativeLinker();
    MethodHandle initialise =
        linker.downcallHandle(
            library.findOrThrow("kvtier_crc32c_initialise"), FunctionDescriptor.of(ADDRESS));
    try {
      MemorySegment implementation = (MemorySegment) initialise.invokeExact();
      LOG.debug("checksums by {}", implementation.reinterpret(Long.MAX_VALUE).getString(0));
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
    // Critical, so that a byte array may be an end: a copy of some MiB keeps the collector waiting
    // for less than a millisecond.
    return new NativeCopy(
        linker.downcallHandle(
            library.findOrThrow("kvtier_copy"),
            FunctionDescriptor.ofVoid(ADDRESS, ADDRESS, JAVA_LONG),
            Linker.Option.critical(true)),
        linker.downcallHandle(
            library.findOrThrow("kvtier_copy_crc32c"),
            FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG),
            Linker.Option.critical(true)));
  }
}
