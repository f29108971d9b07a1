package io.kvtier.tiers.gpu;

import io.kvtier.protocol.linux.Machine;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NoSuchElementException;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_P2PAttribute;
import jcuda.driver.CUdevice_attribute;
import jcuda.driver.CUuuid;
import jcuda.driver.JCudaDriver;

/** NVIDIA's driver. */
public final class CudaDriver implements GpuDriver {
  /** The PTX in the tree, and the functions linked, are of this version. */
  private static final int OLDEST_VERSION = 12_000;

  private static final String LIBRARY = "libcuda.so.1";
  private static final int NO_DEVICE = 100;
  private static final int NAME_BYTES = 256;

  private final CudaCalls calls;
  private final int version;
  private final List<GpuDevice> devices;
  private final Map<GpuDevice, Gpu> opened = new HashMap<>();

  private CudaDriver(CudaCalls calls, int version) {
    this.calls = calls;
    this.version = version;
    JCudaDriver.setExceptionsEnabled(false);
    devices = findDevices();
  }

  /**
   * Looks for the driver and its devices. Throws nothing: what is missing is named in the result.
   */
  @SuppressWarnings("restricted") // the driver's library
  public static GpuProbe probe() {
    SymbolLookup library;
    try {
      library = SymbolLookup.libraryLookup(LIBRARY, Arena.global());
    } catch (IllegalArgumentException _) {
      return new GpuProbe.NoGpu("there is no " + LIBRARY + ": no NVIDIA driver is installed");
    }
    return probe(library);
  }

  static GpuProbe probe(SymbolLookup library) {
    CudaCalls calls;
    try {
      calls = new CudaCalls(library);
    } catch (NoSuchElementException e) {
      return new GpuProbe.NoGpu("the driver is too old: " + e.getMessage());
    }
    int result = calls.initialise();
    if (result == NO_DEVICE) {
      return new GpuProbe.NoGpu(
          "the driver sees no device; is CUDA_VISIBLE_DEVICES empty, or /dev/nvidia0 missing?");
    }
    if (result != CudaCalls.SUCCESS) {
      return new GpuProbe.NoGpu("the driver does not start: " + calls.explain(result));
    }
    int version = calls.driverVersion();
    if (version < OLDEST_VERSION) {
      return new GpuProbe.NoGpu(
          "the driver is too old: it knows CUDA "
              + dotted(version)
              + ", expected "
              + dotted(OLDEST_VERSION)
              + " or newer");
    }
    try {
      CudaDriver driver = new CudaDriver(calls, version);
      return driver.devices.isEmpty()
          ? new GpuProbe.NoGpu("the driver sees no device")
          : new GpuProbe.Found(driver);
    } catch (GpuException e) {
      return new GpuProbe.NoGpu(e.reason());
    } catch (LinkageError e) {
      return new GpuProbe.NoGpu(
          Machine.current() == Machine.X86_64
              ? "JCuda's native library can't be loaded: " + firstLine(e)
              : "JCuda has no native library for this processor architecture, so GPU memory is not"
                  + " served");
    }
  }

  private static String firstLine(Throwable t) {
    return t.toString().lines().findFirst().orElse("");
  }

  private static String dotted(int version) {
    return String.format(Locale.ROOT, "%d.%d", version / 1000, version % 1000 / 10);
  }

  private List<GpuDevice> findDevices() {
    int[] count = new int[1];
    check(JCudaDriver.cuDeviceGetCount(count), "cuDeviceGetCount");
    List<GpuDevice> found = new ArrayList<>();
    for (int ordinal = 0; ordinal < count[0]; ordinal++) {
      CUdevice device = new CUdevice();
      check(JCudaDriver.cuDeviceGet(device, ordinal), "cuDeviceGet");
      byte[] name = new byte[NAME_BYTES];
      check(JCudaDriver.cuDeviceGetName(name, name.length, device), "cuDeviceGetName");
      CUuuid uuid = new CUuuid();
      check(JCudaDriver.cuDeviceGetUuid(uuid, device), "cuDeviceGetUuid");
      String[] pciId = new String[1];
      check(JCudaDriver.cuDeviceGetPCIBusId(pciId, NAME_BYTES, device), "cuDeviceGetPCIBusId");
      long[] bytes = new long[1];
      check(JCudaDriver.cuDeviceTotalMem(bytes, device), "cuDeviceTotalMem");
      int[] multiprocessors = new int[1];
      check(
          JCudaDriver.cuDeviceGetAttribute(
              multiprocessors, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
          "cuDeviceGetAttribute");
      found.add(
          new GpuDevice(
              ordinal,
              uuidText(uuid.bytes),
              terminated(pciId[0]),
              terminated(new String(name, StandardCharsets.US_ASCII)),
              multiprocessors[0],
              bytes[0]));
    }
    return found;
  }

  /** What stands before the first zero. */
  private static String terminated(String text) {
    int end = text.indexOf(0);
    return (end < 0 ? text : text.substring(0, end)).strip();
  }

  private static String uuidText(byte[] bytes) {
    String digits = java.util.HexFormat.of().formatHex(bytes);
    return String.join(
        "-",
        "GPU",
        digits.substring(0, 8),
        digits.substring(8, 12),
        digits.substring(12, 16),
        digits.substring(16, 20),
        digits.substring(20));
  }

  private void check(int result, String call) {
    if (result != CudaCalls.SUCCESS) {
      throw new GpuException(call + ": " + calls.explain(result), result);
    }
  }

  @Override
  public String version() {
    return "CUDA driver " + dotted(version);
  }

  @Override
  public List<GpuDevice> devices() {
    return List.copyOf(devices);
  }

  @Override
  public synchronized Gpu open(GpuDevice device) {
    return opened.computeIfAbsent(device, wanted -> CudaGpu.open(calls, wanted));
  }

  @Override
  public GpuLink link(GpuDevice from, GpuDevice to) {
    CUdevice source = new CUdevice();
    CUdevice target = new CUdevice();
    check(JCudaDriver.cuDeviceGet(source, from.ordinal()), "cuDeviceGet");
    check(JCudaDriver.cuDeviceGet(target, to.ordinal()), "cuDeviceGet");
    int[] value = new int[1];
    check(JCudaDriver.cuDeviceCanAccessPeer(value, source, target), "cuDeviceCanAccessPeer");
    if (value[0] == 0) {
      return GpuLink.NONE;
    }
    // What tells the two apart, as far as the driver does: PCIe has no atomic operations of it.
    check(
        JCudaDriver.cuDeviceGetP2PAttribute(
            value,
            CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
            source,
            target),
        "cuDeviceGetP2PAttribute");
    return value[0] == 0 ? GpuLink.PCIE : GpuLink.NVLINK;
  }
}
