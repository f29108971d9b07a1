package io.kvtier.daemon.index.session;

/**
 * The tables of sessions, of their operations and of their holds, which every verb uses.
 *
 * @param operations requests that are not answered yet
 * @param holds leases, pins and reservations
 * @param claims slots that clients may write
 * @param waiters operations that wait for copies in the first tier
 * @param writer writes completions
 * @param watch hears of requests
 */
public record SessionParts(
    SessionTable sessions,
    Operations operations,
    HoldTable holds,
    SlotClaims claims,
    WaiterTable waiters,
    CompletionWriter writer,
    RequestWatch watch) {}
