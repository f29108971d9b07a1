/**
 * The gRPC front end: one more client of the index, over the very rings that local clients use. One
 * session, the gateway's, serves all remote callers; the bytes of blocks are copied between slots
 * and messages. All of it but the gateway's waiting thread is confined to one event loop.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.grpc;
