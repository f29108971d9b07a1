/**
 * The index: one agent that alone owns the directory, the policies, the leases and the slots. It
 * needs no locks and, per request, no allocation. Sessions are read and answered here; everything
 * that takes time is handed to a pipeline and comes back.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index;
