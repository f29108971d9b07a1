package io.kvtier.tiers.object;

/**
 * Objects that are to go, in the background and for certain: nobody hears of one before it has
 * gone. One thread asks for deletions and looks how far they are.
 */
public interface Deletions {
  /**
   * Has an object deleted, if it is there.
   *
   * @return false when too many wait: nothing was taken
   */
  boolean delete(String name);

  /**
   * Has all objects deleted whose names start alike.
   *
   * @return false when too many wait: nothing was taken
   */
  boolean deleteAll(String prefix);

  /** How many deletions were ever taken. */
  long queued();

  /** How many of them are done: the first ones. */
  long done();

  /** Whether an object is to go: what is written under its name now may go with it. */
  boolean isPending(String name);
}
