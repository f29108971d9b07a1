/** The event loops of the servers for gRPC and HTTP. */
@NullMarked
package io.kvtier.daemon.loop;

import org.jspecify.annotations.NullMarked;
