package io.kvtier.tiers.node.ucx;

import io.kvtier.protocol.linux.Epoll;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.tiers.node.Fabric;
import io.kvtier.tiers.node.FabricPath;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * Blocks over UCX. Each path has a worker of its own, so that the end of a path is the end of its
 * worker: nothing can write to memory of the path afterwards. A thread sleeps on the descriptors of
 * all workers, and rings the bells of their paths. All calls of UCX come from the transport's
 * thread.
 */
public final class UcxFabric implements Fabric {
  /** The usual name of the library. */
  public static final String LIBRARY = "libucp.so.0";

  private static final long STOP = 0;

  private final Ucx ucx;
  private final long context;
  private final Epoll sleepers = Epoll.create();
  private final EventFd stop = EventFd.create();
  private final Map<Long, Runnable> bells = new ConcurrentHashMap<>();
  private @Nullable Thread thread;
  private long lastNumber = STOP;

  /**
   * A fabric without paths.
   *
   * @param library a path of libucp, or a name that the system's loader finds
   * @param settings values of UCX's settings, without the prefix UCX_. Others are those of the
   *     environment and of UCX
   * @throws IOException saying what is missing
   */
  public UcxFabric(String library, Map<String, String> settings) throws IOException {
    try {
      ucx = Ucx.load(library);
      context = ucx.createContext(settings);
      sleepers.add(stop.descriptor(), Epoll.IN, STOP);
    } catch (IOException e) {
      sleepers.close();
      stop.close();
      throw e;
    }
  }

  /**
   * Tries a library: makes a worker, and ends it.
   *
   * @return the version of UCX
   * @throws IOException saying what is missing
   */
  public static String check(String library) throws IOException {
    try (UcxFabric fabric = new UcxFabric(library, Map.of());
        var _ = fabric.open(() -> {})) {
      return fabric.version();
    }
  }

  /** The version of the library. */
  public String version() {
    return ucx.version();
  }

  @Override
  public FabricPath open(Runnable bell) throws IOException {
    if (thread == null) {
      thread = Thread.ofPlatform().daemon().name("kvtier-ucx-bell").start(this::ringBells);
    }
    long number = ++lastNumber;
    long worker = ucx.createWorker(context);
    try {
      int descriptor = ucx.eventDescriptor(worker);
      bells.put(number, bell);
      sleepers.addBorrowed(descriptor, Epoll.ONCE, number);
      return new UcxPath(ucx, worker, ucx.address(worker), new Sleep(descriptor, number));
    } catch (IOException e) {
      bells.remove(number);
      ucx.destroyWorker(worker);
      throw e;
    }
  }

  /** The sleep of one path. */
  final class Sleep {
    private final int descriptor;
    private final long number;

    Sleep(int descriptor, long number) {
      this.descriptor = descriptor;
      this.number = number;
    }

    /** Lets the bell ring once, when the worker's descriptor is readable. */
    void begin() throws IOException {
      sleepers.again(descriptor, Epoll.IN | Epoll.ONCE, number);
    }

    /** The bell does not ring any more. */
    void end() {
      bells.remove(number);
    }
  }

  private void ringBells() {
    while (true) {
      int count = sleepers.await(-1);
      for (int i = 0; i < count; i++) {
        long number = sleepers.tag(i);
        if (number == STOP) {
          return;
        }
        Runnable bell = bells.get(number);
        if (bell != null) {
          bell.run();
        }
      }
    }
  }

  @Override
  public void close() {
    stop.ring();
    Thread sleeping = thread;
    if (sleeping != null) {
      try {
        sleeping.join();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return; // the thread may still use the descriptors
      }
    }
    sleepers.close();
    stop.close();
    ucx.destroyContext(context);
  }
}
