package io.kvtier.policies;

/**
 * What a tier of another size, or under another policy, would have hit.
 *
 * @param policy its policy's specification
 * @param factor its size, in sizes of this tier
 * @param offered the touches of the tier since the shadows of all sizes count, in the sample or
 *     not: since the policy came, or another of its members took charge
 * @param references those in the sample, which are behind the figures
 */
public record WhatIf(
    String policy, double factor, long offered, long references, long blockHits, long prefixHits) {}
