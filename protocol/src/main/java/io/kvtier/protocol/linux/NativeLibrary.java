package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;

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
 * The C core of the Python client ({@code client-py/src/kvtier/_crc32c.c} and {@code _encoding.c}),
 * compiled into this module's resources where the build had a C compiler.
 */
@SuppressWarnings("restricted") // the functions are our own
final class NativeLibrary {
  private static final Logger LOG = LoggerFactory.getLogger(NativeLibrary.class);
  private static final @Nullable SymbolLookup LIBRARY = load();

  private NativeLibrary() {}

  /** The functions; null on a machine that they were not built for. */
  static @Nullable SymbolLookup lookup() {
    return LIBRARY;
  }

  private static @Nullable SymbolLookup load() {
    String name = "/native/linux-" + Machine.current().kernelName() + "/libkvtier_core.so";
    try (InputStream library = NativeLibrary.class.getResourceAsStream(name)) {
      if (library == null) {
        LOG.info("{} is not in this build: copies are made in Java", name);
        return null;
      }
      Path file = Files.createTempFile("kvtier-core", ".so");
      try {
        Files.copy(library, file, StandardCopyOption.REPLACE_EXISTING);
        return initialised(SymbolLookup.libraryLookup(file, Arena.global()));
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

  private static SymbolLookup initialised(SymbolLookup library) {
    LOG.debug(
        "checksums by {}, encodings by {}",
        initialise(library, "kvtier_crc32c_initialise"),
        initialise(library, "kvtier_encoding_initialise"));
    return library;
  }

  /** Chooses the implementation for this processor; returns its name. */
  private static String initialise(SymbolLookup library, String function) {
    MethodHandle initialise =
        Linker.nativeLinker()
            .downcallHandle(library.findOrThrow(function), FunctionDescriptor.of(ADDRESS));
    try {
      MemorySegment name = (MemorySegment) initialise.invokeExact();
      return name.reinterpret(Long.MAX_VALUE).getString(0);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }
}
