package io.kvtier.tiers.gpu;

import io.kvtier.layout.encoding.EncodingKind;

/**
 * A {@link RunTable} whose entries are granules of encoded blocks, for the kernels that encode and
 * decode. On the device they are runs. On the other side they are encoded, and those of an entry
 * lie side by side, from the address of the entry on. {@code granules.cuh} has the kernels.
 *
 * @param address where the device sees the table, which must stay as it is until the kernel is done
 * @param forms how many forms it has
 * @param entries how many entries it has
 * @param granules the granules of the longest entry
 * @param kind how the granules are encoded
 * @param elements the elements of a granule
 * @param flaws where the device sees a byte for each {@link RunTable#place}, which becomes 1 when a
 *     granule of that place does not fit, or is damaged
 */
public record GranuleTable(
    long address,
    int forms,
    int entries,
    int granules,
    EncodingKind kind,
    int elements,
    long flaws) {}
