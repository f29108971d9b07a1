package io.kvtier.protocol.linux;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * A processor architecture that kvtier runs on, with the numbers and layouts of Linux's headers
 * that differ between architectures. All other numbers of this package are the same on each of
 * them, such as those of system calls since Linux 5.1. {@code MachineHeadersTest} compares all with
 * the headers.
 *
 * <p>Both architectures are little-endian with 64-bit addresses. The size of a page is the
 * kernel's: {@link SharedMemory#pageBytes}.
 */
public enum Machine {
  X86_64("x86_64", "x86-64"),
  AARCH64("aarch64", "64-bit Arm");

  private static final String PROPERTY = "os.arch";
  private static final @Nullable Machine HERE = of(System.getProperty(PROPERTY, ""));

  private final String kernelName;
  private final String words;

  Machine(String kernelName, String words) {
    this.kernelName = kernelName;
    this.words = words;
  }

  /**
   * The architecture of this process.
   *
   * @throws UnsupportedOperationException naming it, where kvtier does not know it
   */
  public static Machine current() {
    if (HERE == null) {
      throw new UnsupportedOperationException(refusal(System.getProperty(PROPERTY, "")));
    }
    return HERE;
  }

  /** Why kvtier can't run in this process; null where it can. */
  public static @Nullable String refusal() {
    return HERE == null ? refusal(System.getProperty(PROPERTY, "")) : null;
  }

  static String refusal(String architecture) {
    String known =
        Arrays.stream(values()).map(one -> one.words).collect(Collectors.joining(" or "));
    return "this Java runtime is for the processor architecture '"
        + architecture
        + "'; expected "
        + known
        + ": use such a machine, and a runtime for it";
  }

  /** The architecture that the JDK calls so; null for one that kvtier does not know. */
  static @Nullable Machine of(String architecture) {
    return switch (architecture.toLowerCase(Locale.ROOT)) {
      case "amd64", "x86_64" -> X86_64;
      case "aarch64", "arm64" -> AARCH64;
      default -> null;
    };
  }

  /** What {@code uname -m} says. */
  public String kernelName() {
    return kernelName;
  }

  /** The number of {@code futex(2)}. */
  long futexCall() {
    return switch (this) {
      case X86_64 -> 202;
      case AARCH64 -> 98;
    };
  }

  /** The number of {@code statx(2)}. */
  long statxCall() {
    return switch (this) {
      case X86_64 -> 332;
      case AARCH64 -> 291;
    };
  }

  /** The number of {@code mbind(2)}. */
  long mbindCall() {
    return switch (this) {
      case X86_64 -> 237;
      case AARCH64 -> 235;
    };
  }

  /** The number of {@code get_mempolicy(2)}. */
  long getMempolicyCall() {
    return switch (this) {
      case X86_64 -> 239;
      case AARCH64 -> 236;
    };
  }

  /** The number of {@code move_pages(2)}. */
  long movePagesCall() {
    return switch (this) {
      case X86_64 -> 279;
      case AARCH64 -> 239;
    };
  }

  /** {@code O_DIRECT}. */
  int openDirect() {
    return switch (this) {
      case X86_64 -> 0x4000;
      case AARCH64 -> 0x10000;
    };
  }

  /** The size of {@code struct epoll_event}, which is packed on x86-64 only. */
  int epollEventBytes() {
    return switch (this) {
      case X86_64 -> 12;
      case AARCH64 -> 16;
    };
  }

  /** The offset of the data in {@code struct epoll_event}. */
  int epollDataOffset() {
    return switch (this) {
      case X86_64 -> 4;
      case AARCH64 -> 8;
    };
  }
}
