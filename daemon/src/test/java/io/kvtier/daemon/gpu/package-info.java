/** A GPU of shared memory, for tests of the whole daemon on machines without one. */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.gpu;
