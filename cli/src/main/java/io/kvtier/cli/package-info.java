/** The kvtier command line. */
@NullMarked
package io.kvtier.cli;

import org.jspecify.annotations.NullMarked;
