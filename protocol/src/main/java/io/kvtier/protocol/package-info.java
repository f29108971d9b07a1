/** What goes over the wire and between processes: messages, status codes, native calls. */
@NullMarked
package io.kvtier.protocol;

import org.jspecify.annotations.NullMarked;
