/** The Java client of kvtierd. */
@NullMarked
package io.kvtier.client;

import org.jspecify.annotations.NullMarked;
