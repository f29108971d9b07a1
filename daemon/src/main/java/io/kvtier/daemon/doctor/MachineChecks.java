package io.kvtier.daemon.doctor;

import io.kvtier.daemon.access.ConnectionTable;
import io.kvtier.daemon.access.Listener;
import io.kvtier.daemon.access.ListenerRules;
import io.kvtier.daemon.config.DiskShare;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.config.KvtierdConfig.TlsConfig;
import io.kvtier.daemon.config.MachineMemory;
import io.kvtier.daemon.http.HttpFront;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.files.ByteSize;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;

/** Checks kernel, memory, limits, socket and clock. */
final class MachineChecks {
  private static final int KERNEL_MAJOR = 5;
  private static final int KERNEL_MINOR = 10;
  private static final long LOCKED_MIN = 8L << 20;
  private static final long SHARED_MIN = 16L << 20;

  // A session takes a socket, an eventfd, its process, its region and its slabs' descriptors in
  // flight.
  private static final long FILES_A_SESSION = 5;
  private static final long FILES_BASE = 256;

  /** An instant before every build of this program: an earlier time means a wrong clock. */
  private static final Instant EARLIEST = Instant.parse("2026-01-01T00:00:00Z");

  private static final Path HUGE_SHARED =
      Path.of("/sys/kernel/mm/transparent_hugepage/shmem_enabled");

  private final KvtierdConfig config;
  private final long daemonPid;
  private final ProcessLimits limits;

  MachineChecks(KvtierdConfig config, long daemonPid) {
    this(config, daemonPid, new ProcessLimits(daemonPid));
  }

  /** Checks with given limits of the process. */
  MachineChecks(KvtierdConfig config, long daemonPid, ProcessLimits limits) {
    this.config = config;
    this.daemonPid = daemonPid;
    this.limits = limits;
  }

  Finding kernel() {
    String version = System.getProperty("os.version", "?");
    String[] numbers = version.split("[^0-9]+", 3);
    try {
      int major = Integer.parseInt(numbers[0]);
      int minor = Integer.parseInt(numbers[1]);
      if (major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR)) {
        return Finding.fail(
            "kernel", "Linux " + version, "use Linux 5.10 or newer: the daemon is not tried below");
      }
    } catch (NumberFormatException | ArrayIndexOutOfBoundsException e) {
      return Finding.warn("kernel", "'" + version + "' is no version of Linux", "use Linux");
    }
    return Finding.pass(
        "kernel", "Linux " + version + ", Java " + System.getProperty("java.version", "?"));
  }

  Finding memory() {
    long host = config.tiers().host().memory().bytes();
    long total = MachineMemory.totalBytes();
    long group = MachineMemory.groupBytes();
    long available = MachineMemory.availableBytes();
    long most = group > 0 ? Math.min(group, total) : total;
    String what =
        "host.bytes is "
            + ByteSize.words(host)
            + "; "
            + ByteSize.words(available)
            + " of "
            + ByteSize.words(total)
            + " are available"
            + (group > 0 && group < total
                ? ", the control group allows " + ByteSize.words(group)
                : "");
    if (most > 0 && host > most) {
      return Finding.fail("memory", what, "lower host.bytes: it is more than there is");
    }
    // A running daemon has taken its memory already, and gives it back when it restarts.
    long taken = daemonPid == 0 ? 0 : MachineMemory.sharedBytes(daemonPid);
    if (available > 0 && host > available + taken) {
      return Finding.warn(
          "memory",
          what + (taken > 0 ? ", and the daemon has " + ByteSize.words(taken) + " of its own" : ""),
          "lower host.bytes, or stop what takes the memory: the kernel would kill");
    }
    return Finding.pass("memory", what);
  }

  /** Checks the folder of the host tier's notes; the tier's memory has no file there. */
  Finding sharedMemory() {
    Path folder =
        config.tiers().host().keeping().directory().toString().isEmpty()
            ? Path.of("/dev/shm")
            : config.tiers().host().keeping().directory();
    String check = "host.directory";
    Path existing = DiskShare.existing(folder);
    if (existing == null || !Files.isWritable(existing)) {
      return Finding.fail(
          check,
          "'" + folder + "' can't be written to",
          "mount a tmpfs there, or set host.directory to a folder of the daemon's own: what the"
              + " next start has to know of the memory is noted there");
    }
    try {
      FileStore store = Files.getFileStore(existing);
      String what =
          "'"
              + existing
              + "' has "
              + ByteSize.words(store.getUsableSpace())
              + " free of "
              + ByteSize.words(store.getTotalSpace())
              + "; notes on the host tier lie there, its blocks don't";
      return store.getUsableSpace() < SHARED_MIN
          ? Finding.warn(
              check,
              what,
              "remove what is left there, enlarge it (docker run --shm-size=1g; mount -o"
                  + " remount,size=1G /dev/shm), or set host.directory")
          : Finding.pass(check, what);
    } catch (IOException e) {
      return Finding.warn(check, "'" + existing + "' tells no size", "");
    }
  }

  Finding lockedMemory() {
    long bytes = limits.soft("Max locked memory");
    String what =
        "limit "
            + (bytes == ProcessLimits.UNLIMITED ? "unlimited" : ByteSize.words(bytes))
            + of(daemonPid);
    return bytes < LOCKED_MIN
        ? Finding.warn(
            "memlock",
            what,
            "io_uring may be refused on kernels before 5.12: set LimitMEMLOCK=infinity in the unit,"
                + " or ulimit -l unlimited; in a container docker run --ulimit memlock=-1, in"
                + " Kubernetes LimitMEMLOCK=infinity in the container runtime's unit; or set"
                + " ssd.engine to pread")
        : Finding.pass("memlock", what);
  }

  private static String of(long pid) {
    return pid == 0 ? " (of this shell; the unit sets its own)" : " (of process " + pid + ")";
  }

  Finding hugePages() {
    if (!config.tiers().host().memory().hugePages()) {
      return Finding.pass("huge pages", "not wanted: host.huge_pages is false");
    }
    try {
      String setting = Files.readString(HUGE_SHARED).strip();
      String chosen = setting.replaceAll(".*\\[(\\w+)].*", "$1");
      return chosen.equals("deny")
          ? Finding.warn(
              "huge pages",
              HUGE_SHARED + " is deny: shared memory gets none",
              "echo advise > " + HUGE_SHARED + ": copies are faster with them")
          : Finding.pass(
              "huge pages",
              HUGE_SHARED.getFileName() + " is " + chosen + ", which lets the daemon ask for them");
    } catch (IOException e) {
      return Finding.warn(
          "huge pages",
          "this kernel has none for shared memory",
          "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE, or set host.huge_pages to false");
    }
  }

  Finding openFiles() {
    long most = limits.soft("Max open files");
    long sessions = config.limits().sessions().max();
    int connections = connectionsMax();
    long wanted =
        FILES_BASE + FILES_A_SESSION * sessions + config.tiers().ssd().files() + connections;
    String what =
        "limit "
            + (most == ProcessLimits.UNLIMITED ? "unlimited" : String.valueOf(most))
            + of(daemonPid)
            + ", limits.sessions is "
            + sessions
            + ", and of network connections there may be "
            + connections;
    String cure =
        "set LimitNOFILE="
            + Math.max(65536, wanted)
            + " in the unit, or ulimit -n "
            + Math.max(65536, wanted);
    if (most < Math.min(FILES_BASE, wanted)) {
      return Finding.fail("open files", what + ": too few to start", cure);
    }
    return most < wanted
        ? Finding.warn(
            "open files", what + ": too few for so many, which take " + wanted + " in all", cure)
        : Finding.pass("open files", what);
  }

  /** Maximum connections of both listeners, with connections that are being closed. */
  private int connectionsMax() {
    KvtierdConfig.GrpcConfig grpc = config.network().grpc();
    int most = grpc.enabled() ? grpc.limits().connections() + ConnectionTable.LEAVING_MAX : 0;
    most +=
        config.network().http().enabled()
            ? HttpFront.CONNECTIONS_MAX + ConnectionTable.LEAVING_MAX
            : 0;
    return most;
  }

  Finding socketFolder() {
    Path path = config.socket().path().toAbsolutePath();
    Path folder = path.getParent();
    if (folder == null || !Files.isDirectory(folder)) {
      return Finding.fail(
          "socket",
          "the folder of socket.path '" + path + "' does not exist",
          "make '" + folder + "', or choose another socket.path");
    }
    if (daemonPid == 0 && !Files.isWritable(folder)) {
      return Finding.fail(
          "socket",
          "this user may not write in '" + folder + "', where socket.path is",
          "run as the daemon's user, or choose another socket.path");
    }
    return Finding.pass(
        "socket",
        path
            + ", mode "
            + Integer.toOctalString(config.socket().mode())
            + (config.socket().users().isEmpty() && config.socket().groups().isEmpty()
                ? ", for root and the daemon's user"
                : ", users " + config.socket().users() + ", groups " + config.socket().groups()));
  }

  Finding clock() {
    Instant now = Instant.now();
    return now.isBefore(EARLIEST)
        ? Finding.fail(
            "clock",
            "it is " + now + " by this machine",
            "set the clock (timedatectl set-ntp true): object stores refuse requests of another"
                + " time")
        : Finding.pass("clock", "it is " + now);
  }

  /** Whether gRPC is on, and who may call. */
  Finding remoteCallers() {
    if (!config.network().grpc().enabled()) {
      return Finding.pass(
          "gRPC", "off; grpc.enabled=true switches it on, and access.tokens says who may call");
    }
    TlsConfig tls = Listener.grpc(config).tls();
    boolean isGuarded =
        config.network().access().tokens() != null
            || config.network().access().withoutToken() == Role.NONE
            || (tls != null && tls.clientCa() != null);
    return isGuarded
        ? Finding.pass("gRPC", "on, for callers with a token or a certificate")
        : Finding.warn(
            "gRPC",
            "every user of this machine has role "
                + config.network().access().withoutToken().word()
                + " over gRPC, whatever the socket's mode is",
            "set access.tokens (kvtier token make), or grpc.enabled=false where nobody uses gRPC");
  }

  Finding port(Listener listener) {
    String name = listener.name() + " port";
    Listener.Place place;
    try {
      place = listener.judge(config.network().access());
    } catch (IOException e) {
      return Finding.fail(
          name, String.valueOf(e.getMessage()), "set what it names: no daemon starts so");
    }
    try {
      place.requireFree();
      return Finding.pass(
          name, ListenerRules.address(listener.host(), listener.port()) + " is free");
    } catch (IOException e) {
      return Finding.fail(
          name,
          String.valueOf(e.getMessage()),
          "choose another " + listener.section() + ".port, or end who has it");
    }
  }
}
