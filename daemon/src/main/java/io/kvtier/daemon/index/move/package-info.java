/**
 * How blocks come and go: commits, promotions, evictions, uploads, fetches and scrubbing. Uses
 * {@code transfer}, {@code lane}, {@code source}, {@code space} and {@code core}, and nothing of
 * {@code session}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.move;
