package io.kvtier.tiers.gpu;

/** How the runs of a copy are moved; those that ask less of the engine's GPU come first. */
public enum CopyStrategy {
  /** One call of the copy engine a run. */
  PLAIN,
  /** One call of the copy engines for many runs. */
  BATCH,
  /**
   * A kernel gathers into device memory of ours, or scatters from it; the link is the copy
   * engine's.
   */
  STAGED,
  /** A kernel reads or writes host memory itself, and is busy as long as the link is. */
  KERNEL,
  /**
   * A kernel encodes blocks into device memory of ours, or decodes them from it; the link is the
   * copy engine's. Only for copies of encoded blocks, which have no other.
   */
  ENCODED;

  /** Whether copies of raw blocks can be moved so. */
  public boolean isForRaw() {
    return this != ENCODED;
  }
}
