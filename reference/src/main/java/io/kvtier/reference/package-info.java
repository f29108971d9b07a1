/**
 * The reference pages of the documentation, written from the code: configuration, command lines,
 * metrics, status codes, verbs and roles, gRPC, and the layouts of shared memory and files. Nothing
 * depends on this module; {@code scripts/docs} runs it.
 */
@NullMarked
package io.kvtier.reference;

import org.jspecify.annotations.NullMarked;
