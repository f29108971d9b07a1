package io.kvtier.tiers.gpu;

import java.lang.foreign.MemorySegment;

/**
 * One GPU: its memory, its queues of work, and the copies that it makes. Any thread may call; what
 * goes to one stream must come from one thread at a time.
 *
 * <p>Addresses are the device's. Those of host memory are what {@link #register} gave, and need not
 * be the host's own. Every call may throw {@link GpuException}.
 */
public interface Gpu extends AutoCloseable {
  /** Which one it is. */
  GpuDevice device();

  /** What the driver took of the device's memory when it was opened; -1: that is not known. */
  default long contextBytes() {
    return -1;
  }

  /** Takes device memory, aligned to 256 bytes. */
  long allocate(long bytes);

  /** Gives device memory back. */
  void free(long address);

  /**
   * Pins host memory and lets the device reach it.
   *
   * @return where the device sees it
   */
  long register(MemorySegment host);

  /** Ends {@link #register}. */
  void unregister(MemorySegment host);

  /**
   * Makes a stream.
   *
   * @param urgent false: its kernels give way to those of others
   */
  GpuStream createStream(boolean urgent);

  /** Ends a stream, after the work that is in it. */
  void destroy(GpuStream stream);

  /** Makes an event. */
  GpuEvent createEvent();

  /** Ends an event, made or opened. */
  void destroy(GpuEvent event);

  /**
   * Opens an event of another process, whose last recording can be waited for as one of ours.
   *
   * @param handle CUDA's IPC handle of an event
   */
  GpuEvent openEvent(IpcHandle handle);

  /** Lets other processes open an allocation of ours. */
  IpcHandle share(long address);

  /** Opens memory of another process; opened again, it is the same mapping, counted. */
  DeviceMapping open(DeviceMemory memory);

  /**
   * Whether this GPU's copies can reach the memory of another, which they can from then on: over
   * NVLink, or whatever else joins them. A GPU reaches itself.
   */
  boolean reaches(Gpu other);

  /**
   * Opens memory of another process on a GPU that this one {@link #reaches}; closed by {@link
   * #close(DeviceMemory)}.
   *
   * @param owners where that GPU has opened it, and has it open for longer than this one
   * @return where this GPU sees it
   */
  long openPeer(DeviceMemory memory, DeviceMapping owners);

  /** Closes what {@link #open} or {@link #openPeer} gave, as often as it was opened. */
  void close(DeviceMemory memory);

  /** Whether {@link #copyBatch} is there. */
  boolean hasBatchCopies();

  /** Copies, by one of the copy engines. */
  void copy(GpuStream stream, long target, long source, long bytes);

  /**
   * Copies several at once, in any order, by the copy engines.
   *
   * @param targets addresses, 64 bits each, as are the sources and the lengths; all three may be
   *     used again after the call
   */
  void copyBatch(
      GpuStream stream,
      MemorySegment targets,
      MemorySegment sources,
      MemorySegment lengths,
      int count);

  /**
   * Copies all that stands in a table, by a kernel.
   *
   * @param table where the device sees the {@link RunTable}, which must stay as it is until the
   *     kernel is done
   * @param forms how many forms it has
   * @param count how many entries it has
   * @param pieces into how many pieces of {@link RunTable#PIECE_BYTES} the longest run is cut
   * @param threadBlocks how many, and so how many multiprocessors at most
   */
  void copyTable(GpuStream stream, long table, int forms, int count, int pieces, int threadBlocks);

  /**
   * Encodes the granules of a table, whose sources are runs on the device.
   *
   * @param threadBlocks how many, and so how many multiprocessors at most
   */
  void encode(GpuStream stream, GranuleTable table, int threadBlocks);

  /**
   * Decodes the granules of a table, whose targets are runs on the device. A damaged granule is
   * written to its place, with other bytes.
   *
   * @param threadBlocks how many, and so how many multiprocessors at most
   */
  void decode(GpuStream stream, GranuleTable table, int threadBlocks);

  /** Puts an event behind all that is in a stream. */
  void record(GpuEvent event, GpuStream stream);

  /** Lets a stream wait for an event's last recording. */
  void await(GpuStream stream, GpuEvent event);

  /** Whether all before the event's last recording is done. */
  boolean isDone(GpuEvent event);

  /** Waits until all that is in a stream is done. */
  void synchronize(GpuStream stream);

  /** Ends the use of the device, with all that was not given back; it can't be opened again. */
  @Override
  void close();
}
