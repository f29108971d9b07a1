/**
 * Encoded blocks: the layout of the encoding {@code exact}, and a codec in plain Java. The C core
 * of the clients ({@code client-py/src/kvtier/_exact.c}) makes equal bytes, faster.
 */
@NullMarked
package io.kvtier.layout.encoding;

import org.jspecify.annotations.NullMarked;
