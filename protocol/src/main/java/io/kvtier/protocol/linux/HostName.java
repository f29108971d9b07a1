package io.kvtier.protocol.linux;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The name of this host. */
public final class HostName {
  private static final Path KERNEL = Path.of("/proc/sys/kernel/hostname");

  private HostName() {}

  /** The name that the kernel has. Java's own methods may wait for a name server. */
  public static String read() throws IOException {
    return Files.readString(KERNEL).strip();
  }
}
