package io.kvtier.tiers.gpu;

import jcuda.driver.CUcontext;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUevent;
import jcuda.driver.CUfunction;
import jcuda.driver.CUstream;

/** JCuda's handles, with the number that the driver knows them by. */
final class CudaHandles {
  private CudaHandles() {}

  static final class Context extends CUcontext {
    private static final long serialVersionUID = 1L;

    long number() {
      return getNativePointer();
    }
  }

  static final class Stream extends CUstream {
    private static final long serialVersionUID = 1L;

    long number() {
      return getNativePointer();
    }
  }

  static final class Event extends CUevent {
    private static final long serialVersionUID = 1L;

    long number() {
      return getNativePointer();
    }
  }

  static final class Function extends CUfunction {
    private static final long serialVersionUID = 1L;

    long number() {
      return getNativePointer();
    }
  }

  static final class Memory extends CUdeviceptr {
    private static final long serialVersionUID = 1L;

    long number() {
      return getNativePointer() + getByteOffset();
    }
  }
}
