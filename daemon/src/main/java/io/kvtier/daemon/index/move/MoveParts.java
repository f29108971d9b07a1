package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.LowerTiers;
import io.kvtier.daemon.index.transfer.Mover;

/**
 * The parts that the classes that move blocks share.
 *
 * @param lower the tiers of the stack below the first, with their devices
 * @param mover begins transfers
 * @param copies ends copies
 * @param drops counts the blocks that are lost
 * @param listener hears what becomes of blocks
 */
record MoveParts(
    IndexCore core,
    TierStack stack,
    LowerTiers lower,
    Mover mover,
    Copies copies,
    Drops drops,
    BlockListener listener) {}
