/**
 * The client over gRPC: implements the interfaces of {@link io.kvtier.client} by calls to a daemon.
 *
 * <p>Internal: no API of the client, and may change in any version.
 */
@NullMarked
package io.kvtier.client.internal.remote;

import org.jspecify.annotations.NullMarked;
