package io.kvtier.policies;

/**
 * What a tier of another size, or under another policy, would have hit.
 *
 * @param policy its policy's specification
 * @param factor its size, in sizes of this tier
 * @param references the sampled touches behind the figures
 */
public record WhatIf(
    String policy, double factor, long references, long blockHits, long prefixHits) {}
