package io.kvtier.client;

import java.nio.file.Path;

/** A client's settings, checked by its builder. */
record Config(
    Path socket,
    DaemonUser daemonUser,
    String name,
    long timeoutNs,
    int connectTimeoutMs,
    int requestRingBytes,
    int completionRingBytes,
    long spinNs) {}
