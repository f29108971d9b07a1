package io.kvtier.daemon.index.session;

import io.kvtier.daemon.access.Grant;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.Futex;
import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.BitSet;
import java.util.concurrent.atomic.AtomicIntegerArray;

/**
 * One client as the index sees it: its rings, its holds and its grants. Confined to the index,
 * except for {@link #mayWrite}, {@link #isUsed} and {@link #passedMemory}. The memory behind it
 * lives until the index calls {@link Owner#released}.
 */
public final class Session extends HoldTable.Holder {
  /** The part of the daemon that made the session, and keeps its socket and memory. */
  public interface Owner {
    /**
     * The index ends the session for a reason; the peer must be cut off. Called once, on the
     * index's thread.
     */
    void end(Session session, Status reason, String why);

    /** The index has let go of the session: its memory may be unmapped. */
    void released(Session session);

    /**
     * There are completions, or the session has ended, and the client had said that it sleeps.
     * Called on the index's thread.
     */
    default void wake(Session session) {
      Futex.wake(session.segment, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, Integer.MAX_VALUE);
    }
  }

  private final long id;
  private final Client client;
  private final Grant grant;
  private final MemorySegment segment;
  private final RingConsumer requests;
  private final RingProducer completions;
  private final Owner owner;
  private final AtomicIntegerArray writableSlabs;
  private final PassedDescriptors passedMemory = new PassedDescriptors();

  /** The ids of the namespaces that the session has registered. */
  public final BitSet namespaces = new BitSet();

  /** The calls that wait, if the client is another node. */
  public final ArrayDeque<NodeCall> nodeCalls = new ArrayDeque<>(0);

  public int reservedCompletionBytes;
  public int operations;
  public long requestCount;
  private volatile boolean isUsed;
  public boolean ended;

  /** Whether the next request waits until the client makes room for its completion. */
  public boolean waitsForRoom;

  /**
   * The client of a session.
   *
   * @param name the name that the client gave itself
   * @param process the client's process, if it is known
   * @param pid the process id that the kernel told
   * @param user the user id that the kernel told
   */
  public record Client(String name, ProcessId process, int pid, int user) {
    /** Makes a client from its process id. */
    public static Client of(String name, int pid, int user) {
      return new Client(name, ProcessId.of(pid), pid, user);
    }
  }

  /**
   * A session over fresh memory.
   *
   * @param grant the client's role and tenant
   * @param slabs how many slabs the first tier has
   */
  public Session(
      long id, Client client, Grant grant, SessionRegion region, int slabs, Owner owner) {
    this.id = id;
    this.client = client;
    this.grant = grant;
    this.segment = region.segment();
    this.requests = region.requestConsumer();
    this.completions = region.completionProducer();
    this.owner = owner;
    this.writableSlabs = new AtomicIntegerArray(slabs);
  }

  public long id() {
    return id;
  }

  public String name() {
    return client.name;
  }

  public int peerProcess() {
    return client.pid;
  }

  public int peerUser() {
    return client.user;
  }

  public Grant grant() {
    return grant;
  }

  public Role role() {
    return grant.role();
  }

  /** The number of the tenant whose blocks it sees. */
  public int tenant() {
    return grant.tenant();
  }

  public Owner owner() {
    return owner;
  }

  public RingConsumer requests() {
    return requests;
  }

  /** The client's process. */
  ProcessId process() {
    return client.process;
  }

  /** Whether the session has been granted slots in a slab; from any thread. */
  public boolean mayWrite(int slab) {
    return slab >= 0 && slab < writableSlabs.length() && writableSlabs.get(slab) != 0;
  }

  /** A request has come. */
  public void countRequest() {
    requestCount++;
    if (!isUsed) {
      isUsed = true;
    }
  }

  /** Whether a request has ever come; from any thread. */
  public boolean isUsed() {
    return isUsed;
  }

  /** The descriptors of device memory that the client has passed; from any thread. */
  public PassedDescriptors passedMemory() {
    return passedMemory;
  }

  public void allowWrite(int slab) {
    writableSlabs.set(slab, 1);
  }

  /** Whether a completion of that size can be promised on top of those promised already. */
  public boolean canPromise(int bytes) throws ProtocolViolation {
    return completions.hasRoom((long) reservedCompletionBytes + bytes);
  }

  /**
   * Begins a completion whose space was promised. Its run and its value are 0.
   *
   * @return its offset in {@link #segment}
   */
  long beginCompletion(int bytes, int verb, int flags, Status status, long correlationId, int count)
      throws ProtocolViolation {
    long at = completions.tryClaim(bytes);
    if (at < 0) {
      throw new IllegalStateException(
          "no room for a completion of " + bytes + " bytes that was promised");
    }
    Words.putInt(segment, at + CompletionDescriptor.RECORD_BYTES_OFFSET, bytes);
    Words.putShort(segment, at + CompletionDescriptor.VERB_OFFSET, verb);
    Words.putShort(segment, at + CompletionDescriptor.FLAGS_OFFSET, flags);
    Words.putLong(segment, at + CompletionDescriptor.CORRELATION_OFFSET, correlationId);
    Words.putInt(segment, at + CompletionDescriptor.COUNT_OFFSET, count);
    Words.putInt(segment, at + CompletionDescriptor.RUN_OFFSET, 0);
    Words.putLong(segment, at + CompletionDescriptor.VALUE_OFFSET, 0);
    // The status, and the zeroes behind it.
    Words.putLong(segment, at + CompletionDescriptor.STATUS_OFFSET, status.code());
    Words.putLong(segment, at + CompletionDescriptor.STATUS_OFFSET + 8, 0);
    return at;
  }

  /** Completes with a text, cut to fit. */
  public void completeText(int verb, Status status, long correlationId, String text, int bytesMax)
      throws ProtocolViolation {
    byte[] utf8 = Printable.linesOf(text).getBytes(StandardCharsets.UTF_8);
    int length = Math.min(utf8.length, bytesMax - CompletionDescriptor.HEADER_BYTES);
    long at =
        beginCompletion(
            Records.textCompletion(length),
            verb,
            CompletionDescriptor.FLAG_TEXT,
            status,
            correlationId,
            length);
    MemorySegment.copy(
        MemorySegment.ofArray(utf8), 0, segment, at + CompletionDescriptor.HEADER_BYTES, length);
  }

  /**
   * The processor on which the client went to sleep, as the protocol's words say it: its number
   * plus one, or 0. It is what the client says.
   */
  public int clientCpu() {
    return Words.getInt(segment, SessionRegionDescriptor.CLIENT_CPU_OFFSET);
  }

  MemorySegment segment() {
    return segment;
  }

  /** Makes new completions visible and wakes the client if it sleeps. */
  public void publish() {
    if (completions.hasUnpublished()) {
      completions.publish();
      wake();
    }
  }

  private void wake() {
    Words.fullFence();
    if (Words.getIntVolatile(segment, SessionRegionDescriptor.CLIENT_WAITING_OFFSET) != 0) {
      Words.putIntVolatile(segment, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 0);
      owner.wake(this);
    }
  }

  /** Ends the session, and writes the reason where the client finds it. */
  void markEnded(Status reason) {
    ended = true;
    Words.putIntVolatile(segment, SessionRegionDescriptor.END_REASON_OFFSET, reason.code() + 1);
    Words.putIntVolatile(segment, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 0);
    owner.wake(this);
  }
}
