/**
 * A session with the daemon of this machine over shared memory: its connection, its rings, its
 * calls.
 *
 * <p>Internal: no API of the client, and may change in any version.
 */
@NullMarked
package io.kvtier.client.internal.session;

import org.jspecify.annotations.NullMarked;
