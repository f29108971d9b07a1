/**
 * The clients: their sessions, operations, holds, and the answers that they get. Uses {@code space}
 * and {@code core}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.session;
