/**
 * Which block leaves next. Policies decide and never act: no IO, no locks, no knowledge of pins.
 * Each is confined to the index's thread.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.policies;
