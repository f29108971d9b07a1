/**
 * Local sessions: the Unix socket, the handshake, and the end of a connection as the end of a
 * session.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.session;
