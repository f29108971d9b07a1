/**
 * The media below the device: {@code host} and {@code ssd}, the slots they are cut into, and the
 * transfers between them.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers;
