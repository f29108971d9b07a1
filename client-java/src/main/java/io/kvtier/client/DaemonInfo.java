package io.kvtier.client;

/**
 * The daemon at the other end.
 *
 * @param version as the daemon says it in its welcome
 * @param generation a new random number at every start of the daemon
 * @param startTimeMs milliseconds since the epoch
 * @param sessionId this client's session there
 */
public record DaemonInfo(
    String version, long pid, long generation, long startTimeMs, long sessionId) {}
