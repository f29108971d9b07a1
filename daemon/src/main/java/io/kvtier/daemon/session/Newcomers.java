package io.kvtier.daemon.session;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.protocol.Counted;
import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolVersion;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Utf8;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.UnixSocket;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.util.Collection;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** Decides who gets a session: version, rights, and shares of sessions and of rings' memory. */
final class Newcomers {
  /** Maximum share of clients with the role read in a tenant's sessions. */
  private static final double READERS_SHARE = 0.75;

  private static final int NAME_BYTES_MAX = 256;

  /** The decision about a hello. */
  sealed interface Decision {}

  /** The client gets a session; its rings are taken from the budget. */
  record Accepted(String name, Grant grant, RingBudget.Rings rings) implements Decision {}

  /** The client gets no session. */
  record Refused(Status status, String why) implements Decision {}

  /** The open sessions. */
  interface Sessions {
    /** The connections with a session, oldest first. */
    Collection<Connection> open();

    /**
     * Ends the oldest session without a request, of the sessions whose place the newcomer could
     * take.
     *
     * @return words that tell the newcomer to try again; empty if no session was ended
     */
    String letOneGo(Predicate<Connection> isOne);
  }

  private final String version;
  private final PeerPolicy peers;
  private final Tenants tenants;
  private final int sessionsMax;
  private final RingBudget rings;
  private final UnreadAnswers unread;
  private final Sessions sessions;

  Newcomers(
      String version,
      SessionConductor.Access access,
      RingBudget rings,
      UnreadAnswers unread,
      Sessions sessions) {
    this.version = version;
    this.peers = access.peers();
    this.tenants = access.tenants();
    this.sessionsMax = access.sessionsMax();
    this.rings = rings;
    this.unread = unread;
    this.sessions = sessions;
  }

  /** Decides about a client by its first message. */
  Decision decide(UnixSocket.PeerCredentials peer, byte[] bytes) {
    if (!Messages.isHello(bytes)) {
      return new Refused(
          Status.INVALID_ARGUMENT,
          "the "
              + bytes.length
              + " bytes that came are no hello of a kvtier client: is socket.path given to another"
              + " program, such as one that speaks gRPC?");
    }
    MemorySegment hello = Messages.aligned(bytes);
    int spoken = Words.getInt(hello, HandshakeDescriptor.HELLO_VERSION_OFFSET);
    if (!ProtocolVersion.isCompatible(spoken)) {
      return new Refused(
          Status.VERSION_MISMATCH,
          "kvtierd " + version + " " + ProtocolVersion.mismatch(Protocol.VERSION, spoken));
    }
    Grant grant = peers.grantOf(peer);
    if (grant.role() == Role.NONE) {
      return new Refused(Status.DENIED, peers.refusal(peer));
    }
    Refused noPlace = placeFor(grant, peer.uid());
    if (noPlace != null) {
      return noPlace;
    }
    String name;
    try {
      name = nameOf(hello, bytes);
    } catch (IllegalArgumentException e) {
      return new Refused(
          Status.INVALID_ARGUMENT, "the client's name is " + e.getMessage() + "; names are UTF-8");
    }
    return ringsFor(hello, grant, name);
  }

  /** The refusal if there is no place for another session of the caller, else null. */
  private @Nullable Refused placeFor(Grant grant, int user) {
    int count = sessions.open().size();
    if (count >= sessionsMax) {
      return busy(
          "the limit of " + Counted.of(count, "session") + " is reached (limits.sessions)",
          each -> true);
    }
    if (unread.isAtLimit(user)) {
      return new Refused(
          Status.BUSY,
          "this user has "
              + UnreadAnswers.OF_A_USER_MAX
              + " connections that are over and whose answers, with descriptors, its processes have"
              + " not read: end those processes");
    }
    int share = tenants.shareOf(sessionsMax, grant.tenant());
    Predicate<Connection> isOfTenant = each -> each.isOf(grant.tenant());
    long ofTenant = count(isOfTenant);
    if (ofTenant >= share) {
      return busy(
          "this tenant has " + Counted.of(ofTenant, "session") + ", its share of limits.sessions",
          isOfTenant);
    }
    if (RingBudget.isReader(grant)) {
      Predicate<Connection> isReader =
          each -> isOfTenant.test(each) && each.grant != null && RingBudget.isReader(each.grant);
      long readers = count(isReader);
      if (readers >= Math.max(1, (int) (share * READERS_SHARE))) {
        return busy(
            Counted.of(readers, "session")
                + " with the role read exist already, the share of this role in limits.sessions",
            isReader);
      }
    }
    return null;
  }

  private long count(Predicate<Connection> isOne) {
    return sessions.open().stream().filter(isOne).count();
  }

  private Decision ringsFor(MemorySegment hello, Grant grant, String name) {
    int requestBytes = Words.getInt(hello, HandshakeDescriptor.HELLO_REQUEST_RING_OFFSET);
    int completionBytes = Words.getInt(hello, HandshakeDescriptor.HELLO_COMPLETION_RING_OFFSET);
    if (!isRingSize(requestBytes) || !isRingSize(completionBytes)) {
      return new Refused(
          Status.INVALID_ARGUMENT,
          "rings of "
              + requestBytes
              + " and "
              + completionBytes
              + " bytes; expected powers of two from "
              + Protocol.RING_BYTES_MIN
              + " to "
              + Protocol.RING_BYTES_MAX);
    }
    RingBudget.Rings taken = rings.take(grant, requestBytes, completionBytes);
    if (taken != null) {
      return new Accepted(name, grant, taken);
    }
    return busy(
        "the rings of this tenant's sessions"
            + (RingBudget.isReader(grant) ? " that may only read" : "")
            + " take their share of limits.ring_bytes, "
            + rings.share(grant)
            + " bytes, and a session needs "
            + RingBudget.Rings.SMALLEST.bytes()
            + " at least",
        each ->
            each.isOf(grant.tenant()) && each.grant != null && each.grant.role() == grant.role());
  }

  private Refused busy(String why, Predicate<Connection> whoCouldGo) {
    return new Refused(Status.BUSY, why + sessions.letOneGo(whoCouldGo));
  }

  private static boolean isRingSize(int bytes) {
    return bytes >= Protocol.RING_BYTES_MIN
        && bytes <= Protocol.RING_BYTES_MAX
        && Integer.bitCount(bytes) == 1;
  }

  /** A client's name, printable and shortened, for logs and terminals. */
  private static String nameOf(MemorySegment hello, byte[] bytes) {
    int length =
        Math.min(
            Words.getShort(hello, HandshakeDescriptor.HELLO_NAME_BYTES_OFFSET),
            bytes.length - HandshakeDescriptor.HELLO_NAME_OFFSET);
    int kept = Math.min(length, NAME_BYTES_MAX);
    if (length > NAME_BYTES_MAX) {
      while (kept > 0 && (bytes[HandshakeDescriptor.HELLO_NAME_OFFSET + kept - 1] & 0xc0) == 0x80) {
        kept--;
      }
      kept = Math.max(0, kept - 1);
    }
    return Printable.of(Utf8.decode(bytes, HandshakeDescriptor.HELLO_NAME_OFFSET, kept));
  }
}
