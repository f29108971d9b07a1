package io.kvtier.tiers.object;

/** The two ways of a pipeline. */
record ObjectLanes(ObjectLane loads, ObjectLane stores) {
  /** The way that an operation takes. */
  ObjectLane of(ObjectOperation operation) {
    return operation.isLoad() ? loads : stores;
  }
}
