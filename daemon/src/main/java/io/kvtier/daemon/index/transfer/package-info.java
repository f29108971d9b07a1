/**
 * How blocks are handed to pipelines, and how transfers end. Uses {@code lane}, {@code source},
 * {@code space} and {@code core}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.transfer;
