package io.kvtier.tiers.object;

/** Tells of single objects whether they are there: all that looking for them needs of a store. */
public interface ObjectProbe {
  /** The length of an object. */
  StoreCall head(String name, long timeoutNs);

  /** For people: what store this is. */
  String describe();
}
