package io.kvtier.bench.gpu;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import jcuda.Pointer;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUfunction;
import jcuda.driver.CUmodule;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;

/**
 * Runs another program in this process, and when a file is made has a kernel write where no memory
 * is: CUDA gives each later call in the process the same error then, as it does after a fault of
 * the hardware.
 */
public final class GpuBreaker {
  private static final long LOOK_MS = 50;
  private static final String KERNEL =
      """
      .version 7.0
      .target sm_70
      .address_size 64
      .visible .entry fault()
      {
        .reg .b32 %r<2>;
        .reg .b64 %rd<2>;
        mov.u32 %r1, 1;
        mov.u64 %rd1, 16;
        st.global.u32 [%rd1], %r1;
        ret;
      }
      """;

  private GpuBreaker() {}

  /**
   * Runs the program.
   *
   * @param arguments the file, the program's main class, and its arguments
   */
  public static void main(String[] arguments) throws ReflectiveOperationException {
    Path file = Path.of(arguments[0]);
    Thread _ = Thread.ofPlatform().daemon().name("gpu-breaker").start(() -> breakWhenMade(file));
    String[] rest = Arrays.copyOfRange(arguments, 2, arguments.length);
    Class.forName(arguments[1]).getMethod("main", String[].class).invoke(null, (Object) rest);
  }

  private static void breakWhenMade(Path file) {
    try {
      while (!Files.deleteIfExists(file)) {
        Thread.sleep(LOOK_MS);
      }
      fault();
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void fault() {
    CUdevice device = new CUdevice();
    check(JCudaDriver.cuInit(0));
    check(JCudaDriver.cuDeviceGet(device, 0));
    CUcontext context = new CUcontext();
    check(JCudaDriver.cuDevicePrimaryCtxRetain(context, device));
    check(JCudaDriver.cuCtxSetCurrent(context));
    CUmodule module = new CUmodule();
    byte[] text = (KERNEL + "\0").getBytes(StandardCharsets.US_ASCII);
    check(JCudaDriver.cuModuleLoadData(module, text));
    CUfunction kernel = new CUfunction();
    check(JCudaDriver.cuModuleGetFunction(kernel, module, "fault"));
    check(
        JCudaDriver.cuLaunchKernel(
            kernel, 1, 1, 1, 1, 1, 1, 0, null, Pointer.to(new Pointer[0]), null));
    System.err.println("the GPU is broken: " + CUresult.stringFor(JCudaDriver.cuCtxSynchronize()));
  }

  private static void check(int result) {
    if (result != CUresult.CUDA_SUCCESS) {
      throw new IllegalStateException(CUresult.stringFor(result));
    }
  }
}
