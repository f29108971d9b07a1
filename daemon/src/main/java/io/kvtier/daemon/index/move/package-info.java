/**
 * How blocks come and go: commits, promotions, evictions, uploads, fetches and scrubbing, and the
 * pipelines that carry them out. Uses {@code lane}, {@code source}, {@code space} and {@code core},
 * and nothing of {@code session}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.move;
