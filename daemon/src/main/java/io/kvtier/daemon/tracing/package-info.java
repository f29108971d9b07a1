/**
 * What operators are told of requests: lines of the log that name a request's id, and spans, sent
 * to an OpenTelemetry collector. The index says what happened ({@link
 * io.kvtier.daemon.index.RequestTap}); all that takes time is done here, on a thread of its own.
 */
@NullMarked
package io.kvtier.daemon.tracing;

import org.jspecify.annotations.NullMarked;
