package io.kvtier.client.internal.session;

import java.nio.file.Path;

/**
 * How a client reaches its daemon.
 *
 * @param daemonUser the users whose daemon the client accepts
 * @param name what the daemon calls this client in its lists
 * @param timeoutMs how long the daemon may take to answer one message of the handshake
 */
public record Connecting(
    Path socket,
    DaemonUser daemonUser,
    String name,
    int timeoutMs,
    int requestRingBytes,
    int completionRingBytes) {}
