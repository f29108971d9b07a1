/**
 * Parts that both clients use.
 *
 * <p>Internal: no API of the client, and may change in any version.
 */
@NullMarked
package io.kvtier.client.internal.shared;

import org.jspecify.annotations.NullMarked;
