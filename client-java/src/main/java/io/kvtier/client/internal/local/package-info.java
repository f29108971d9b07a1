/**
 * The client of the daemon on this machine: implements the interfaces of {@link io.kvtier.client}
 * over sessions.
 *
 * <p>Internal: no API of the client, and may change in any version.
 */
@NullMarked
package io.kvtier.client.internal.local;

import org.jspecify.annotations.NullMarked;
