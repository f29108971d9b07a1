package io.kvtier.policies;

/**
 * What a tier of another size, or under another policy, would have hit.
 *
 * @param policy its policy's specification
 * @param factor its size, in sizes of this tier
 * @param offered the touches of the tier since its shadow began, in the sample or not: what began
 *     later was empty for more of its time
 * @param references those in the sample, which are behind the figures
 */
public record WhatIf(
    String policy, double factor, long offered, long references, long blockHits, long prefixHits) {}
