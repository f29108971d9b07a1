/**
 * The wire, written down once: the status table, the verbs, the layouts of shared memory (session
 * and daemon regions, rings, request and completion records, counters) and of the handshake. The
 * numbers and layouts are generated from protocol/schema.toml, for Java, Python and C.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.protocol;
