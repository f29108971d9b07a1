/** kvtierd: start, wiring and the end of the daemon. */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon;
