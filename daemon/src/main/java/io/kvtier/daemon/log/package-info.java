/** The daemon's log: how lines are written, and how many of one cause. */
@NullMarked
package io.kvtier.daemon.log;

import org.jspecify.annotations.NullMarked;
