package io.kvtier.tiers.node.ucx;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Map;
import java.util.NoSuchElementException;

/**
 * The functions of libucp that are used here, as {@code ucp/api/ucp.h} declares them. Handles of
 * UCX are addresses. A worker and all that belongs to it are used by one thread.
 */
@SuppressWarnings("restricted") // the functions of the operator's library, as its header has them
final class Ucx {
  private static final Linker LINKER = Linker.nativeLinker();
  private static final int STATUS_CHARS_MAX = 256;

  /** Does nothing: requests tell of errors. UCX complains about endpoints without a handler. */
  private static final MemorySegment ON_ERROR =
      LINKER.upcallStub(
          MethodHandles.empty(
              MethodType.methodType(void.class, long.class, long.class, byte.class)),
          FunctionDescriptor.ofVoid(JAVA_LONG, JAVA_LONG, JAVA_BYTE),
          Arena.global());

  private final SymbolLookup library;
  private final String version;
  private final MethodHandle readConfig;
  private final MethodHandle modifyConfig;
  private final MethodHandle releaseConfig;
  private final MethodHandle initialise;
  private final MethodHandle cleanup;
  private final MethodHandle createWorker;
  private final MethodHandle destroyWorker;
  private final MethodHandle address;
  private final MethodHandle releaseAddress;
  private final MethodHandle eventDescriptor;
  private final MethodHandle arm;
  private final MethodHandle progress;
  private final MethodHandle createEndpoint;
  private final MethodHandle closeEndpoint;
  private final MethodHandle send;
  private final MethodHandle receive;
  private final MethodHandle status;
  private final MethodHandle cancel;
  private final MethodHandle free;
  private final MethodHandle statusString;

  /** The parameter of a request without any choice. */
  private final MemorySegment plain = Arena.global().allocate(UcxLayouts.REQUEST_PARAM_BYTES, 8);

  private final MemorySegment byForce = Arena.global().allocate(UcxLayouts.REQUEST_PARAM_BYTES, 8);

  private Ucx(SymbolLookup library, String version) {
    this.library = library;
    this.version = version;
    readConfig = status("ucp_config_read", ADDRESS, ADDRESS, ADDRESS);
    modifyConfig = status("ucp_config_modify", JAVA_LONG, ADDRESS, ADDRESS);
    releaseConfig = nothing("ucp_config_release", JAVA_LONG);
    initialise = status("ucp_init_version", JAVA_INT, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    cleanup = nothing("ucp_cleanup", JAVA_LONG);
    createWorker = status("ucp_worker_create", JAVA_LONG, ADDRESS, ADDRESS);
    destroyWorker = nothing("ucp_worker_destroy", JAVA_LONG);
    address = status("ucp_worker_get_address", JAVA_LONG, ADDRESS, ADDRESS);
    releaseAddress = nothing("ucp_worker_release_address", JAVA_LONG, ADDRESS);
    eventDescriptor = status("ucp_worker_get_efd", JAVA_LONG, ADDRESS);
    arm = status("ucp_worker_arm", JAVA_LONG);
    progress = link("ucp_worker_progress", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    createEndpoint = status("ucp_ep_create", JAVA_LONG, ADDRESS, ADDRESS);
    closeEndpoint = link("ucp_ep_close_nbx", FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, ADDRESS));
    send =
        link(
            "ucp_tag_send_nbx",
            FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS));
    receive =
        link(
            "ucp_tag_recv_nbx",
            FunctionDescriptor.of(
                JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS));
    status = status("ucp_request_check_status", JAVA_LONG);
    cancel = nothing("ucp_request_cancel", JAVA_LONG, JAVA_LONG);
    free = nothing("ucp_request_free", JAVA_LONG);
    statusString = link("ucs_status_string", FunctionDescriptor.of(ADDRESS, JAVA_BYTE));
    byForce.set(JAVA_INT, 0, UcxLayouts.REQUEST_FIELD_FLAGS);
    byForce.set(JAVA_INT, UcxLayouts.REQUEST_FLAGS_OFFSET, UcxLayouts.CLOSE_BY_FORCE);
  }

  /**
   * Loads a library, for the rest of the process.
   *
   * @param name a path, or a name that the loader of the system finds
   * @throws IOException saying what is wrong with it
   */
  static Ucx load(String name) throws IOException {
    UcxEnvironment.prepare();
    SymbolLookup library;
    try {
      library = SymbolLookup.libraryLookup(name, Arena.global());
    } catch (IllegalArgumentException e) {
      throw new IOException("the library '" + name + "' can't be loaded: " + e.getMessage(), e);
    }
    try {
      int[] version = versionOf(library);
      String text = version[0] + "." + version[1] + "." + version[2];
      if (version[0] != UcxLayouts.MAJOR || version[1] < UcxLayouts.MINOR) {
        throw new IOException(
            "the library '"
                + name
                + "' is UCX "
                + text
                + ", expected "
                + UcxLayouts.MAJOR
                + "."
                + UcxLayouts.MINOR
                + " or a newer "
                + UcxLayouts.MAJOR
                + ".x");
      }
      return new Ucx(library, text);
    } catch (NoSuchElementException e) {
      throw new IOException("the library '" + name + "' is no libucp: " + e.getMessage(), e);
    }
  }

  private static int[] versionOf(SymbolLookup library) {
    MethodHandle get =
        LINKER.downcallHandle(
            library.findOrThrow("ucp_get_version"),
            FunctionDescriptor.ofVoid(ADDRESS, ADDRESS, ADDRESS));
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment numbers = arena.allocate(3 * JAVA_INT.byteSize(), 4);
      get.invokeExact(numbers, numbers.asSlice(4), numbers.asSlice(8));
      return numbers.toArray(JAVA_INT);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  private MethodHandle link(String name, FunctionDescriptor descriptor) {
    return LINKER.downcallHandle(library.findOrThrow(name), descriptor);
  }

  private MethodHandle status(String name, MemoryLayout... arguments) {
    return link(name, FunctionDescriptor.of(JAVA_BYTE, arguments));
  }

  private MethodHandle nothing(String name, MemoryLayout... arguments) {
    return link(name, FunctionDescriptor.ofVoid(arguments));
  }

  private static AssertionError defect(Throwable t) {
    return new AssertionError("a call of UCX", t);
  }

  /** The version of the library, such as 1.13.1. */
  String version() {
    return version;
  }

  // ---- contexts and workers

  /**
   * Makes a context.
   *
   * @param settings values of UCX's own settings, without the prefix UCX_
   */
  long createContext(Map<String, String> settings) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(JAVA_LONG);
      check(
          (byte) readConfig.invokeExact(MemorySegment.NULL, MemorySegment.NULL, out),
          "ucp_config_read");
      long config = out.get(JAVA_LONG, 0);
      try {
        for (Map.Entry<String, String> one : settings.entrySet()) {
          check(
              (byte)
                  modifyConfig.invokeExact(
                      config, arena.allocateFrom(one.getKey()), arena.allocateFrom(one.getValue())),
              "ucp_config_modify of " + one);
        }
        MemorySegment params = arena.allocate(UcxLayouts.PARAMS_BYTES, 8);
        params.set(JAVA_LONG, 0, UcxLayouts.PARAM_FIELD_FEATURES);
        params.set(
            JAVA_LONG,
            UcxLayouts.PARAMS_FEATURES_OFFSET,
            UcxLayouts.FEATURE_TAG | UcxLayouts.FEATURE_WAKEUP);
        check(
            (byte) initialise.invokeExact(UcxLayouts.MAJOR, UcxLayouts.MINOR, params, config, out),
            "ucp_init");
        return out.get(JAVA_LONG, 0);
      } finally {
        releaseConfig.invokeExact(config);
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  void destroyContext(long context) {
    try {
      cleanup.invokeExact(context);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  long createWorker(long context) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment params = arena.allocate(UcxLayouts.WORKER_PARAMS_BYTES, 8);
      params.set(JAVA_LONG, 0, UcxLayouts.WORKER_FIELD_THREAD_MODE);
      params.set(JAVA_INT, UcxLayouts.WORKER_THREAD_MODE_OFFSET, UcxLayouts.THREAD_MODE_SINGLE);
      MemorySegment out = arena.allocate(JAVA_LONG);
      check((byte) createWorker.invokeExact(context, params, out), "ucp_worker_create");
      return out.get(JAVA_LONG, 0);
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Ends a worker, its endpoints and its requests. */
  void destroyWorker(long worker) {
    try {
      destroyWorker.invokeExact(worker);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  byte[] address(long worker) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment at = arena.allocate(ADDRESS);
      MemorySegment length = arena.allocate(JAVA_LONG);
      check((byte) address.invokeExact(worker, at, length), "ucp_worker_get_address");
      MemorySegment bytes = at.get(ADDRESS, 0);
      try {
        return bytes.reinterpret(length.get(JAVA_LONG, 0)).toArray(JAVA_BYTE);
      } finally {
        releaseAddress.invokeExact(worker, bytes);
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** The descriptor that becomes readable when an armed worker has something to do. */
  int eventDescriptor(long worker) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(JAVA_INT);
      check((byte) eventDescriptor.invokeExact(worker, out), "ucp_worker_get_efd");
      return out.get(JAVA_INT, 0);
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Prepares the descriptor of a worker; false if the worker has something to do now. */
  boolean arm(long worker) throws IOException {
    try {
      byte result = (byte) arm.invokeExact(worker);
      if (result == UcxLayouts.BUSY) {
        return false;
      }
      check(result, "ucp_worker_arm");
      return true;
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Moves bytes; 0 if there was nothing to do. */
  int progress(long worker) {
    try {
      return (int) progress.invokeExact(worker);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  // ---- endpoints and requests

  /** Makes an endpoint towards the worker with an address; its errors end its requests. */
  long createEndpoint(long worker, byte[] to) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment params = arena.allocate(UcxLayouts.ENDPOINT_PARAMS_BYTES, 8);
      params.set(
          JAVA_LONG,
          0,
          UcxLayouts.ENDPOINT_FIELD_ADDRESS
              | UcxLayouts.ENDPOINT_FIELD_ERROR_MODE
              | UcxLayouts.ENDPOINT_FIELD_ERROR_HANDLER);
      MemorySegment bytes = arena.allocate(Math.max(to.length, 8), 8);
      MemorySegment.copy(to, 0, bytes, JAVA_BYTE, 0, to.length);
      params.set(ADDRESS, UcxLayouts.ENDPOINT_ADDRESS_OFFSET, bytes);
      params.set(JAVA_INT, UcxLayouts.ENDPOINT_ERROR_MODE_OFFSET, UcxLayouts.ERROR_MODE_PEER);
      params.set(ADDRESS, UcxLayouts.ENDPOINT_ERROR_HANDLER_OFFSET, ON_ERROR);
      MemorySegment out = arena.allocate(JAVA_LONG);
      check((byte) createEndpoint.invokeExact(worker, params, out), "ucp_ep_create");
      return out.get(JAVA_LONG, 0);
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Begins to close an endpoint without a word to the other side; gives a request or a status. */
  long closeEndpoint(long endpoint) {
    try {
      return (long) closeEndpoint.invokeExact(endpoint, byForce);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Begins to send; gives a request or a status. */
  long send(long endpoint, MemorySegment bytes, long tag) {
    try {
      return (long) send.invokeExact(endpoint, bytes, bytes.byteSize(), tag, plain);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Begins to receive; gives a request or a status. */
  long receive(long worker, MemorySegment into, long tag) {
    try {
      return (long) receive.invokeExact(worker, into, into.byteSize(), tag, -1L, plain);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** The status of a request, or the status that was given instead of a request. */
  byte status(long requestOrStatus) {
    if (!isRequest(requestOrStatus)) {
      return (byte) requestOrStatus;
    }
    try {
      return (byte) status.invokeExact(requestOrStatus);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  private static boolean isRequest(long requestOrStatus) {
    return requestOrStatus > 0;
  }

  /** Ends a request that has not begun; the status tells. */
  void cancel(long worker, long requestOrStatus) {
    if (isRequest(requestOrStatus)) {
      try {
        cancel.invokeExact(worker, requestOrStatus);
      } catch (Throwable t) {
        throw defect(t);
      }
    }
  }

  /** Gives a request back, whose status is not asked again. */
  void free(long requestOrStatus) {
    if (isRequest(requestOrStatus)) {
      try {
        free.invokeExact(requestOrStatus);
      } catch (Throwable t) {
        throw defect(t);
      }
    }
  }

  // ---- errors

  /** A status in UCX's words. */
  String words(byte code) {
    try {
      MemorySegment text = (MemorySegment) statusString.invokeExact(code);
      return text.reinterpret(STATUS_CHARS_MAX).getString(0) + " (" + code + ")";
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  private void check(byte code, String what) throws IOException {
    if (code != UcxLayouts.OK) {
      throw new IOException("UCX: " + what + ": " + words(code));
    }
  }
}
