/**
 * Encoded blocks: the layouts of the encodings {@code exact} and {@code fp8}, and a codec in plain
 * Java. The C core of the clients ({@code client-py/src/kvtier/_encoding.c}) makes equal bytes,
 * faster.
 */
@NullMarked
package io.kvtier.layout.encoding;

import org.jspecify.annotations.NullMarked;
