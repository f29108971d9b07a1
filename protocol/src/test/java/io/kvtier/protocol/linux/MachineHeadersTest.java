package io.kvtier.protocol.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Each number and layout of Linux that this package has is that of the C headers, of both
 * architectures: a C compiler compares them.
 *
 * <p>Headers of the other architecture come with its cross compiler (Debian: {@code
 * gcc-aarch64-linux-gnu}, {@code gcc-x86-64-linux-gnu}). {@code scripts/arm-check} runs this test
 * on 64-bit Arm.
 */
class MachineHeadersTest {
  /** Names of C macros; all other names are our own. */
  private static final Pattern OF_C =
      Pattern.compile(
          "(AF|AT|EFD|EPOLL|F|FUTEX|MADV|MAP|MFD|MPOL|MSG|O|PROT|SCM|SHUT|SO|SOCK|SOL|STATX)_[A-Z_0-9]+"
              + "|(E|POLL|SIG|SIOC)[A-Z0-9]+");

  /** Ours in spite of their names. */
  private static final Pattern NOT_OF_C = Pattern.compile("EDGE|ERROR|.*_(BYTES|OFFSET|MAX)");

  /** They have one value for each machine, and are compared by themselves. */
  private static final Set<String> OF_THE_MACHINE = Set.of("O_DIRECT");

  /** Newer than the headers of some systems. */
  private static final Set<String> NEW =
      Set.of("MADV_COLLAPSE", "MADV_POPULATE_WRITE", "SO_PASSRIGHTS", "SO_PEERPIDFD");

  private static final String HEADERS =
      """
      #define _GNU_SOURCE
      #include <errno.h>
      #include <fcntl.h>
      #include <linux/dma-buf.h>
      #include <linux/futex.h>
      #include <linux/io_uring.h>
      #include <linux/magic.h>
      #include <linux/mempolicy.h>
      #include <linux/sockios.h>
      #include <poll.h>
      #include <signal.h>
      #include <spawn.h>
      #include <stddef.h>
      #include <sys/epoll.h>
      #include <sys/eventfd.h>
      #include <sys/ioctl.h>
      #include <sys/mman.h>
      #include <sys/socket.h>
      #include <sys/stat.h>
      #include <sys/statfs.h>
      #include <sys/syscall.h>
      #include <sys/uio.h>
      #include <sys/un.h>
      """;

  @ParameterizedTest
  @EnumSource(Machine.class)
  void numbersAndLayouts_areThoseOfTheHeaders(Machine machine) throws Exception {
    String compiler = compilerFor(machine);
    assumeTrue(compiler != null, "no C compiler for " + machine.kernelName());
    assertEquals("", complaints(compiler, program(machine, machine)));
  }

  @Test
  void numbersOfTheOtherMachine_areNoticed() throws Exception {
    Machine here = Machine.current();
    String compiler = compilerFor(here);
    assumeTrue(compiler != null, "no C compiler");
    Machine other = here == Machine.X86_64 ? Machine.AARCH64 : Machine.X86_64;

    String complaints = complaints(compiler, program(here, other));

    for (String fact :
        List.of(
            "SYS_futex",
            "SYS_statx",
            "SYS_mbind",
            "SYS_get_mempolicy",
            "SYS_move_pages",
            "O_DIRECT",
            "sizeof(struct epoll_event)")) {
      assertTrue(complaints.contains("\"" + fact + "\""), () -> fact + " in: " + complaints);
    }
  }

  /** A program that compiles where all is as this package says. */
  private static String program(Machine compiled, Machine said) throws Exception {
    StringBuilder program = new StringBuilder(HEADERS);
    require(program, "defined(__" + compiled.kernelName() + "__)");
    require(program, "defined(__LP64__)");
    require(program, "__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__");
    int macros = 0;
    for (Class<?> one : classes()) {
      for (Field field : one.getDeclaredFields()) {
        String name = field.getName();
        if (isNumber(field) && isOfC(name)) {
          field.setAccessible(true);
          program.append(NEW.contains(name) ? "#ifdef " + name + "\n" : "");
          compare(program, name, ((Number) field.get(null)).longValue());
          program.append(NEW.contains(name) ? "#endif\n" : "");
          macros++;
        }
      }
    }
    assertTrue(macros > 80, "only " + macros + " constants of C were found");
    ofThe(said).forEach((fact, value) -> compare(program, fact, value));
    OF_ALL.forEach((fact, value) -> compare(program, fact, value));
    return program.toString();
  }

  /** The classes of the package. */
  private static List<Class<?>> classes() throws Exception {
    Path root = Path.of(Machine.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    List<Class<?>> classes = new ArrayList<>();
    try (Stream<Path> files =
        Files.list(root.resolve(Machine.class.getPackageName().replace('.', '/')))) {
      for (Path file : files.sorted().toList()) {
        String name = String.valueOf(file.getFileName());
        if (name.endsWith(".class") && !name.contains("$") && !name.startsWith("package-info")) {
          classes.add(
              Class.forName(Machine.class.getPackageName() + "." + name.replace(".class", "")));
        }
      }
    }
    return classes;
  }

  private static boolean isNumber(Field field) {
    Class<?> type = field.getType();
    return Modifier.isStatic(field.getModifiers())
        && (type == int.class || type == long.class || type == short.class);
  }

  private static boolean isOfC(String name) {
    return OF_C.matcher(name).matches()
        && !NOT_OF_C.matcher(name).matches()
        && !OF_THE_MACHINE.contains(name);
  }

  private static void require(StringBuilder program, String condition) {
    program.append("#if !(").append(condition).append(")\n#error \"").append(condition);
    program.append("\"\n#endif\n");
  }

  private static void compare(StringBuilder program, String fact, long value) {
    program.append("_Static_assert((long)(").append(fact).append(") == ").append(value);
    program.append("L, \"").append(fact).append("\");\n");
  }

  private static Map<String, Long> ofThe(Machine machine) {
    return Map.of(
        "SYS_futex", machine.futexCall(),
        "SYS_statx", machine.statxCall(),
        "SYS_mbind", machine.mbindCall(),
        "SYS_get_mempolicy", machine.getMempolicyCall(),
        "SYS_move_pages", machine.movePagesCall(),
        "O_DIRECT", (long) machine.openDirect(),
        "sizeof(struct epoll_event)", (long) machine.epollEventBytes(),
        "offsetof(struct epoll_event, data)", (long) machine.epollDataOffset());
  }

  private static final Map<String, Long> OF_ALL = ofAll();

  private static Map<String, Long> ofAll() {
    Map<String, Long> all = new LinkedHashMap<>();
    // Numbers under names of our own.
    all.put("SYS_pidfd_open", 434L);
    all.put("SYS_close_range", 436L);
    all.put("SYS_io_uring_setup", IoUringLayout.SETUP_CALL);
    all.put("SYS_io_uring_enter", IoUringLayout.ENTER_CALL);
    all.put("SYS_io_uring_register", IoUringLayout.REGISTER_CALL);
    all.put("EPOLLIN", (long) Epoll.IN);
    all.put("(int)EPOLLET", (long) Epoll.EDGE);
    all.put("EPOLL_CTL_ADD", 1L);
    all.put("EPOLL_CTL_DEL", 2L);
    all.put("POSIX_SPAWN_SETSIGMASK", 8L);
    all.put("POSIX_SPAWN_SETSID", 0x80L);
    all.put("S_IFMT", 0170000L);
    all.put("S_IFCHR", 0020000L);
    all.put("S_IFREG", 0100000L);
    // Layouts that are read and written by offset.
    all.put("offsetof(struct epoll_event, events)", 0L);
    all.put("sizeof(struct iovec)", 16L);
    all.put("offsetof(struct iovec, iov_len)", 8L);
    all.put("sizeof(struct pollfd)", 8L);
    all.put("offsetof(struct pollfd, events)", 4L);
    all.put("offsetof(struct pollfd, revents)", 6L);
    all.put("sizeof(struct timespec)", 16L);
    all.put("sizeof(struct sockaddr_un)", 110L);
    all.put("offsetof(struct sockaddr_un, sun_path)", 2L);
    all.put("sizeof(struct msghdr)", 56L);
    all.put("offsetof(struct msghdr, msg_namelen)", 8L);
    all.put("offsetof(struct msghdr, msg_iov)", 16L);
    all.put("offsetof(struct msghdr, msg_iovlen)", 24L);
    all.put("offsetof(struct msghdr, msg_control)", 32L);
    all.put("offsetof(struct msghdr, msg_controllen)", 40L);
    all.put("offsetof(struct msghdr, msg_flags)", 48L);
    all.put("sizeof(struct cmsghdr)", 16L);
    all.put("offsetof(struct cmsghdr, cmsg_level)", 8L);
    all.put("offsetof(struct cmsghdr, cmsg_type)", 12L);
    all.put("sizeof(struct ucred)", 12L);
    all.put("sizeof(struct linger)", 8L);
    all.put("sizeof(struct timeval)", 16L);
    all.put("sizeof(struct statx)", 256L);
    all.put("offsetof(struct statx, stx_mode)", 28L);
    all.put("offsetof(struct statx, stx_rdev_major)", 128L);
    all.put("sizeof(struct statfs)", 120L);
    all.put("offsetof(struct statfs, f_type)", 0L);
    all.put("sizeof(posix_spawnattr_t) <= 1024 && sizeof(posix_spawn_file_actions_t) <= 1024", 1L);
    all.put("DMA_BUF_MAGIC", 0x444d4142L);
    // io_uring.
    all.put("sizeof(struct io_uring_params)", (long) IoUringLayout.PARAMS_BYTES);
    all.put("offsetof(struct io_uring_params, cq_entries)", (long) IoUringLayout.PARAMS_CQ_ENTRIES);
    all.put("offsetof(struct io_uring_params, flags)", (long) IoUringLayout.PARAMS_FLAGS);
    all.put("offsetof(struct io_uring_params, features)", (long) IoUringLayout.PARAMS_FEATURES);
    all.put("offsetof(struct io_uring_params, sq_off.head)", (long) IoUringLayout.PARAMS_SQ_HEAD);
    all.put("offsetof(struct io_uring_params, sq_off.tail)", (long) IoUringLayout.PARAMS_SQ_TAIL);
    all.put(
        "offsetof(struct io_uring_params, sq_off.ring_mask)", (long) IoUringLayout.PARAMS_SQ_MASK);
    all.put("offsetof(struct io_uring_params, sq_off.array)", (long) IoUringLayout.PARAMS_SQ_ARRAY);
    all.put("offsetof(struct io_uring_params, cq_off.head)", (long) IoUringLayout.PARAMS_CQ_HEAD);
    all.put("offsetof(struct io_uring_params, cq_off.tail)", (long) IoUringLayout.PARAMS_CQ_TAIL);
    all.put(
        "offsetof(struct io_uring_params, cq_off.ring_mask)", (long) IoUringLayout.PARAMS_CQ_MASK);
    all.put(
        "offsetof(struct io_uring_params, cq_off.cqes)", (long) IoUringLayout.PARAMS_CQ_ENTRIES_AT);
    all.put("IORING_SETUP_R_DISABLED", (long) IoUringLayout.SETUP_R_DISABLED);
    all.put("IORING_FEAT_SINGLE_MMAP", (long) IoUringLayout.FEATURE_SINGLE_MMAP);
    all.put("IORING_FEAT_NODROP", (long) IoUringLayout.FEATURE_NODROP);
    all.put("IORING_OFF_SQ_RING", IoUringLayout.RINGS_AT);
    all.put("IORING_OFF_SQES", IoUringLayout.ENTRIES_AT);
    all.put("IORING_ENTER_GETEVENTS", (long) IoUringLayout.ENTER_GETEVENTS);
    all.put("IORING_REGISTER_FILES", (long) IoUringLayout.REGISTER_FILES);
    all.put("IORING_REGISTER_PROBE", (long) IoUringLayout.REGISTER_PROBE);
    all.put("IORING_REGISTER_ENABLE_RINGS", (long) IoUringLayout.REGISTER_ENABLE_RINGS);
    all.put("IORING_OP_READV", (long) IoUringLayout.OP_READV);
    all.put("IORING_OP_WRITEV", (long) IoUringLayout.OP_WRITEV);
    all.put("IORING_OP_READ", (long) IoUringLayout.OP_READ);
    all.put("sizeof(struct io_uring_sqe)", (long) IoUringLayout.SQE_BYTES);
    all.put("offsetof(struct io_uring_sqe, fd)", (long) IoUringLayout.SQE_DESCRIPTOR);
    all.put("offsetof(struct io_uring_sqe, off)", (long) IoUringLayout.SQE_OFFSET);
    all.put("offsetof(struct io_uring_sqe, addr)", (long) IoUringLayout.SQE_ADDRESS);
    all.put("offsetof(struct io_uring_sqe, len)", (long) IoUringLayout.SQE_LENGTH);
    all.put("offsetof(struct io_uring_sqe, user_data)", (long) IoUringLayout.SQE_USER_DATA);
    all.put("IOSQE_FIXED_FILE", (long) IoUringLayout.SQE_FIXED_FILE);
    all.put("sizeof(struct io_uring_cqe)", (long) IoUringLayout.CQE_BYTES);
    all.put("offsetof(struct io_uring_cqe, res)", (long) IoUringLayout.CQE_RESULT);
    all.put("sizeof(struct io_uring_probe)", (long) IoUringLayout.PROBE_HEADER_BYTES);
    all.put("sizeof(struct io_uring_probe_op)", (long) IoUringLayout.PROBE_ENTRY_BYTES);
    all.put("offsetof(struct io_uring_probe_op, flags)", (long) IoUringLayout.PROBE_FLAGS);
    return all;
  }

  /** The compiler of this machine, or a cross compiler; null where there is none. */
  private static @Nullable String compilerFor(Machine machine) {
    List<String> names =
        machine == Machine.current()
            ? List.of("cc", "gcc", "clang")
            : List.of(machine.kernelName().replace('_', '-') + "-linux-gnu-gcc");
    for (String folder : System.getenv().getOrDefault("PATH", "").split(":", -1)) {
      for (String name : names) {
        Path program = Path.of(folder, name);
        if (Files.isExecutable(program)) {
          return program.toString();
        }
      }
    }
    return null;
  }

  /** What the compiler says of a program; empty where it compiles. */
  private static String complaints(String compiler, String program)
      throws IOException, InterruptedException {
    Path file = Files.createTempFile("kvtier-headers", ".c");
    try {
      Files.writeString(file, program);
      Process process =
          new ProcessBuilder(compiler, "-std=gnu11", "-fsyntax-only", file.toString())
              .redirectErrorStream(true)
              .start();
      String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      return process.waitFor() == 0 ? "" : said;
    } finally {
      Files.delete(file);
    }
  }
}
