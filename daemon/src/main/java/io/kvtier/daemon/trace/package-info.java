/** Recording of requests for the simulator. */
@NullMarked
package io.kvtier.daemon.trace;

import org.jspecify.annotations.NullMarked;
