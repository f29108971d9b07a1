/** The kvtierd process: configuration, sessions and the service itself. */
@NullMarked
package io.kvtier.daemon;

import org.jspecify.annotations.NullMarked;
