package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.session.Operation;
import org.jspecify.annotations.Nullable;

/**
 * The job of each operation in the pool that has ever been an OFFLOAD or an ONBOARD. Confined to
 * the index.
 */
final class DeviceJobs {
  private final @Nullable DeviceJob[] jobs;

  /** No operation has a job yet. */
  DeviceJobs(int operationsMax) {
    jobs = new DeviceJob[operationsMax];
  }

  /** The job of an operation: made when it is first asked for, and kept. */
  DeviceJob of(Operation operation) {
    DeviceJob job = jobs[operation.poolIndex];
    if (job == null) {
      job = new DeviceJob();
      jobs[operation.poolIndex] = job;
    }
    return job;
  }
}
