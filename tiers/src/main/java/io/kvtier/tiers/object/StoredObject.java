package io.kvtier.tiers.object;

/**
 * An object as a list tells of it.
 *
 * @param modifiedMs when it was written, by the store's clock, in ms since 1970
 */
public record StoredObject(String name, long bytes, long modifiedMs) {}
