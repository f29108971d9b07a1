/**
 * The whole daemon on one thread, on a simulated clock, over devices that err, lie and are slow,
 * with clients that hang, scribble and die. One seed decides everything, so every failure can be
 * had again.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.simulation;
