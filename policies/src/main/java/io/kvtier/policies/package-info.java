/**
 * Which block leaves next, and which may enter. Policies decide and never act: no IO, no locks, no
 * knowledge of pins. Each is confined to the index's thread. Here are the seams and how a policy is
 * chosen by name; the policies themselves are in {@code eviction} and {@code admission}, and the
 * simulator that drives the same classes in {@code simulation}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.policies;
