package io.kvtier.tiers.node;

import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * A TCP connection. The bytes of a block are read from the socket straight into their slot, and are
 * written from the slot straight to the socket. Only this link's thread touches them, so that a
 * slot is free as soon as the link has let go of it. If both sides have a {@link Fabric}, frames go
 * over the connection and the blocks by the fabric.
 */
final class TcpLink extends LinkTurns.Member implements NodeLink {
  /** After this long, other links have their turns: writing and reading each go on for as long. */
  private static final long TURN_NS = TimeUnit.MICROSECONDS.toNanos(200);

  /** So that the checksum is made of bytes that are still in the processor's cache. */
  private static final int CHUNK_BYTES = 256 << 10;

  /** Small, so that few bytes of a block arrive beside its slot. */
  private static final int HEAD_READ_BYTES = 1024;

  /** Large, because many requests come at a time, and most of them without a block. */
  private static final int REQUESTS_READ_BYTES = 8 << 10;

  private static final int FRAMES_QUEUED_MAX = 1024;

  /**
   * The bytes of answers, without blocks, beyond which a node is not listened to. These bytes are
   * half of {@link #FRAMES_QUEUED_MAX} at most, because one request can have many answers, and
   * requests that were read before have answers to come.
   */
  private static final int ANSWERS_QUEUED_BYTES =
      FRAMES_QUEUED_MAX / 2 * FrameDescriptor.HEAD_BYTES;

  private static final int FRAMES_WRITTEN = 64;

  /** Maximum bytes of several frames. One block may be larger. */
  private static final int BYTES_WRITTEN = 1 << 20;

  private enum State {
    CONNECTING,
    SECURING,
    OPEN,
    CLOSED
  }

  /** A frame on its way out. */
  private record Outgoing(ByteBuffer head, @Nullable ByteBuffer payload, Runnable sent) {
    /** The memory that it takes while it waits, bytes. */
    int bytes() {
      return head.limit();
    }

    int remaining() {
      return head.remaining() + (payload == null ? 0 : payload.remaining());
    }

    boolean isSent() {
      return !head.hasRemaining() && (payload == null || !payload.hasRemaining());
    }
  }

  private final TcpTransport transport;
  private final Listener listener;
  private final String address;

  /**
   * Whether nothing is read while many answers wait. The other side must read all the time then, or
   * both would wait.
   */
  private final boolean waitsForReader;

  private final ArrayDeque<Outgoing> queue = new ArrayDeque<>();
  private final ByteBuffer[] gathered = new ByteBuffer[2 * FRAMES_WRITTEN];
  private int gatheredBuffers;
  private final CRC32C crc = new CRC32C();
  private final ByteBuffer input;
  private State state = State.CONNECTING;
  private @Nullable SocketChannel channel;
  private @Nullable SelectionKey key;
  private @Nullable Wire wire;

  /** The bytes of the block that is arriving: where they go, and how many have come. */
  private @Nullable ByteBuffer target;

  private int payloadBytes;
  private int payloadRead;
  private boolean isDiscarded;

  /** Beside the connection, for blocks. */
  private final LinkFabric fabric;

  /** The memory of the queue, bytes. */
  private int queuedBytes;

  private boolean isPaused;

  /** The operations for which the channel is ready. */
  private int readyFor;

  /** Whether the next turn reads, and writes, even if the channel is not said to be ready. */
  private boolean isToRead;

  private boolean isToWrite;
  private long heardNs;
  private long movedNs;
  private long received;
  private long sent;

  TcpLink(TcpTransport transport, Listener listener, String address, boolean waitsForReader) {
    this.transport = transport;
    this.listener = listener;
    this.address = address;
    this.waitsForReader = waitsForReader;
    fabric =
        new LinkFabric(
            transport.fabric(), waitsForReader, () -> transport.later(() -> transport.due(this)));
    input =
        transport
            .buffers()
            .take(FrameDescriptor.HEAD_BYTES + FrameDescriptor.BODY_BYTES_MAX)
            .order(ByteOrder.LITTLE_ENDIAN)
            .flip();
    heardNs = transport.nowNs();
    movedNs = heardNs;
  }

  // ---- the beginning

  /** Takes a channel that connects, or is connected. */
  void begin(SocketChannel socket, Wire over, SelectionKey registered) {
    if (state == State.CLOSED) {
      return;
    }
    channel = socket;
    wire = over;
    key = registered;
    registered.attach(this);
    if (socket.isConnected()) {
      connected();
    }
  }

  private void connected() {
    SocketChannel socket = channel;
    SelectionKey registered = key;
    if (socket == null || registered == null) {
      return;
    }
    try {
      socket.setOption(StandardSocketOptions.TCP_NODELAY, true);
      if (transport.sendBufferBytes() > 0) {
        // Bytes in the kernel's queue take fresh pages, which are not in the processor's cache.
        // Blocks can wait in their slots instead.
        socket.setOption(StandardSocketOptions.SO_SNDBUF, transport.sendBufferBytes());
      }
    } catch (IOException e) {
      close(words(e));
      return;
    }
    state = State.SECURING;
    registered.interestOps(SelectionKey.OP_READ);
    secure();
  }

  private void secure() {
    Wire over = wire;
    SelectionKey registered = key;
    if (over == null || registered == null || state != State.SECURING) {
      return;
    }
    try {
      Wire.Handshake next = over.handshake(() -> transport.later(this::secure));
      switch (next) {
        case DONE -> {
          state = State.OPEN;
          heardNs = transport.nowNs();
          movedNs = heardNs;
          registered.interestOps(SelectionKey.OP_READ);
          listener.onOpen(this);
          // The first frames may have come with the end of the handshake.
          isToRead = true;
          transport.due(this);
        }
        case BYTES -> registered.interestOps(SelectionKey.OP_READ);
        case SPACE -> registered.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
        case TASK -> registered.interestOps(0);
      }
    } catch (IOException e) {
      close(words(e));
    }
  }

  @Override
  public void trust() {
    if (state != State.OPEN) {
      return;
    }
    try {
      Frame offer = fabric.trust();
      if (offer != null) {
        send(offer);
      }
    } catch (IOException e) {
      close(words(e));
    }
  }

  // ---- turns

  /** The channel is ready for something: this link has a turn soon. */
  void ready(int operations) {
    readyFor |= operations;
    transport.due(this);
  }

  @Override
  void turn() {
    int operations = readyFor;
    readyFor = 0;
    switch (state) {
      case CONNECTING -> {
        if ((operations & SelectionKey.OP_CONNECT) != 0) {
          finishConnect();
        }
      }
      case SECURING -> secure();
      case OPEN -> {
        if (isToWrite || (operations & SelectionKey.OP_WRITE) != 0) {
          isToWrite = false;
          write();
        }
        if (state == State.OPEN && (isToRead || (operations & SelectionKey.OP_READ) != 0)) {
          isToRead = false;
          read();
        }
        if (state == State.OPEN) {
          workFabric();
        }
      }
      case CLOSED -> {}
    }
  }

  private void finishConnect() {
    SocketChannel socket = channel;
    try {
      if (socket != null && socket.finishConnect()) {
        connected();
      }
    } catch (IOException e) {
      close(words(e));
    }
  }

  // ---- what arrives

  /** Reads what has come, until the turn is over. */
  private void read() {
    Wire over = wire;
    if (over == null) {
      return;
    }
    long endNs = transport.nowNs() + TURN_NS;
    boolean isOver = false;
    try {
      while (!isOver && state == State.OPEN && !isFull()) {
        long count =
            fabric.isReceiving()
                ? readAhead(over)
                : payloadBytes > 0 ? readPayload(over) : readFrame(over);
        if (count < 0) {
          throw new EOFException("the other side closed the connection");
        }
        if (count == 0) {
          break;
        }
        isOver = transport.nowNs() - endNs >= 0;
      }
    } catch (IOException e) {
      close(words(e));
      return;
    }
    SelectionKey registered = key;
    if (state == State.OPEN && isFull() && registered != null) {
      isPaused = true;
      registered.interestOps(SelectionKey.OP_WRITE);
    } else if (state == State.OPEN && isOver) {
      isToRead = true;
      transport.due(this);
    } else if (state == State.OPEN && isInputFull() && registered != null) {
      registered.interestOps(registered.interestOps() & ~SelectionKey.OP_READ);
    }
  }

  /** Whether nothing is read until the block that comes by the fabric has come. */
  private boolean isInputFull() {
    return fabric.isReceiving() && input.remaining() == input.capacity();
  }

  /**
   * Reads what follows a block that comes by the fabric; so the end of the link is seen at once.
   */
  private long readAhead(Wire over) throws IOException {
    if (isInputFull()) {
      return 0;
    }
    input.compact();
    try {
      return heard(over.read(input));
    } finally {
      input.flip();
    }
  }

  private boolean isFull() {
    return waitsForReader && queuedBytes >= ANSWERS_QUEUED_BYTES;
  }

  private long heard(long count) {
    if (count > 0) {
      heardNs = transport.nowNs();
      movedNs = heardNs;
      received += count;
    }
    return count;
  }

  /** Takes the next frame, or reads a part of it; returns how many bytes were read or taken. */
  private long readFrame(Wire over) throws IOException {
    int needed = Frame.bytes(input);
    if (needed >= 0 && input.remaining() >= needed) {
      long tag = Frame.tag(input);
      take(Frame.take(input), tag);
      return needed;
    }
    input.compact();
    int usual = waitsForReader ? REQUESTS_READ_BYTES : HEAD_READ_BYTES;
    int missing = needed < 0 ? usual : Math.max(needed - input.position(), 1);
    input.limit(Math.min(input.capacity(), input.position() + missing));
    try {
      return heard(over.read(input));
    } finally {
      input.flip();
    }
  }

  private void take(Frame frame, long tag) throws IOException {
    if (frame.type() == FrameType.FABRIC) {
      Frame answer = fabric.take(frame);
      if (answer != null) {
        send(answer);
      }
      return;
    }
    MemorySegment into = listener.onFrame(this, frame);
    if (state != State.OPEN || frame.payloadBytes() == 0) {
      return;
    }
    payloadBytes = frame.payloadBytes();
    payloadRead = 0;
    crc.reset();
    isDiscarded = into == null;
    target = into == null ? null : into.asByteBuffer();
    if (target != null && target.remaining() != payloadBytes) {
      throw new FrameException(
          "a block has " + payloadBytes + " bytes, expected " + target.remaining());
    }
    if (tag != 0) {
      fabric.receive(tag, into, this::receivedByFabric, transport.nowNs());
    }
  }

  private void receivedByFabric() {
    var _ = heard(payloadBytes);
    transport.byFabric().countReceived(payloadBytes);
    ByteBuffer whole = target;
    if (whole != null) {
      crc.update(whole);
    }
    payloadBytes = 0;
    target = null;
    SelectionKey registered = key;
    if (registered != null && registered.isValid() && !isPaused) {
      registered.interestOps(registered.interestOps() | SelectionKey.OP_READ);
    }
    isToRead = true;
    transport.due(this);
    listener.onPayload(this, isDiscarded ? 0 : (int) crc.getValue(), !isDiscarded);
  }

  private void workFabric() {
    try {
      if (fabric.work()) {
        transport.due(this);
      }
    } catch (IOException e) {
      close(words(e));
    }
  }

  /** Takes the next bytes of a block; returns how many bytes were read or taken. */
  private long readPayload(Wire over) throws IOException {
    ByteBuffer to = target;
    int most = Math.min(CHUNK_BYTES, payloadBytes - payloadRead);
    ByteBuffer chunk = to == null ? transport.scratch(most) : to.slice(payloadRead, most);
    long count;
    if (input.hasRemaining()) {
      int taken = Math.min(most, input.remaining());
      chunk.put(input.slice(input.position(), taken));
      input.position(input.position() + taken);
      count = taken;
    } else {
      count = heard(readChunk(over, chunk));
    }
    if (count <= 0) {
      return count;
    }
    chunk.flip();
    payloadRead += chunk.remaining();
    if (to != null) {
      crc.update(chunk);
    }
    if (payloadRead == payloadBytes) {
      transport.onLinks().countReceived(payloadBytes);
      payloadBytes = 0;
      target = null;
      listener.onPayload(this, isDiscarded ? 0 : (int) crc.getValue(), !isDiscarded);
    }
    return count;
  }

  /** Reads bytes of a block, and with its last ones the next frame's head if that has come. */
  private long readChunk(Wire over, ByteBuffer chunk) throws IOException {
    if (payloadRead + chunk.remaining() < payloadBytes) {
      return over.read(chunk);
    }
    // No more: further bytes may be of the next block, and would be copied to its slot.
    input.clear().limit(FrameDescriptor.HEAD_BYTES);
    try {
      return over.read(chunk, input);
    } finally {
      input.flip();
    }
  }

  @Override
  public void discard(Runnable released) {
    target = null;
    isDiscarded = true;
    if (fabric.isReceiving()) {
      fabric.discard(released, transport.nowNs());
      transport.due(this);
    } else {
      released.run();
    }
  }

  // ---- what leaves

  @Override
  public void send(Frame frame, MemorySegment payload, Runnable done) {
    if (state == State.CLOSED) {
      return;
    }
    if (queue.size() >= FRAMES_QUEUED_MAX) {
      transport.later(() -> close("the other side does not read its answers"));
      return;
    }
    if (queue.isEmpty()) {
      movedNs = transport.nowNs();
    }
    Outgoing one = outgoing(frame, payload, done);
    queue.add(one);
    queuedBytes += one.bytes();
    isToWrite = true;
    transport.due(this);
  }

  private Outgoing outgoing(Frame frame, MemorySegment payload, Runnable done) {
    ByteBuffer head = frame.encoded();
    if (payload.byteSize() == 0) {
      return new Outgoing(head, null, done);
    }
    long tag = fabric.tag();
    if (tag == 0) {
      return new Outgoing(head, payload.asByteBuffer(), done);
    }
    head.putLong(FrameDescriptor.TAG_OFFSET, tag);
    return new Outgoing(head, null, () -> sendByFabric(tag, payload, done));
  }

  private void sendByFabric(long tag, MemorySegment block, Runnable done) {
    fabric.send(
        tag,
        block,
        () -> {
          movedNs = transport.nowNs();
          sent += block.byteSize();
          transport.byFabric().countSent(block.byteSize());
          done.run();
        });
  }

  /** Writes what is queued, as far as the channel takes it, until the turn is over. */
  private void write() {
    Wire over = wire;
    SelectionKey registered = key;
    if (over == null || registered == null) {
      return;
    }
    long endNs = transport.nowNs() + TURN_NS;
    try {
      boolean isBlocked = !over.flush();
      while (!isBlocked && !queue.isEmpty() && !isToWrite) {
        int frames = gather();
        long count = over.write(gathered, gatheredBuffers);
        long nowNs = transport.nowNs();
        if (count > 0) {
          movedNs = nowNs;
          sent += count;
        }
        isBlocked = !finishSent(frames);
        isToWrite = nowNs - endNs >= 0;
      }
      isBlocked |= !over.flush();
      isToWrite &= !isBlocked && !queue.isEmpty();
      if (isPaused && !isFull()) {
        isPaused = false;
        isToRead = true;
      }
      if (isToWrite || isToRead) {
        transport.due(this);
      }
      if (state == State.OPEN && registered.isValid()) {
        registered.interestOps(
            (isPaused || isInputFull() ? 0 : SelectionKey.OP_READ)
                | (isBlocked ? SelectionKey.OP_WRITE : 0));
      }
    } catch (IOException e) {
      close(words(e));
    }
  }

  /** Gathers the next bytes; returns the number of their frames. */
  private int gather() {
    int buffers = 0;
    int frames = 0;
    int bytes = 0;
    for (Outgoing one : queue) {
      if (frames == FRAMES_WRITTEN || bytes >= BYTES_WRITTEN) {
        break;
      }
      frames++;
      bytes += one.remaining();
      if (one.head.hasRemaining()) {
        gathered[buffers++] = one.head;
      }
      if (one.payload != null) {
        gathered[buffers++] = one.payload;
      }
    }
    gatheredBuffers = buffers;
    return frames;
  }

  /** Ends the frames that were sent; false if one was sent in part, so that the channel is full. */
  private boolean finishSent(int frames) {
    for (int left = frames; left > 0; left--) {
      Outgoing first = queue.element();
      if (!first.isSent()) {
        return false;
      }
      queue.remove();
      queuedBytes -= first.bytes();
      if (first.payload != null) {
        transport.onLinks().countSent(first.payload.limit());
      }
      first.sent.run();
    }
    return true;
  }

  // ---- the end

  @Override
  public void close(String why) {
    if (state == State.CLOSED) {
      return;
    }
    Wire over = wire;
    if (over != null && state != State.CONNECTING) {
      over.end();
    }
    state = State.CLOSED;
    target = null;
    payloadBytes = 0;
    queue.clear();
    SocketChannel socket = channel;
    if (socket != null) {
      try {
        socket.close();
      } catch (IOException e) {
        // Nothing uses the connection any more.
      }
    }
    fabric.close();
    transport.forget(this);
    transport.buffers().giveBack(input);
    if (over != null) {
      over.release();
    }
    listener.onClosed(this, why);
  }

  private static String words(IOException e) {
    String message = e.getMessage();
    return message == null || message.isEmpty() ? e.getClass().getSimpleName() : message;
  }

  // ---- what is known of it

  @Override
  public String address() {
    return address;
  }

  @Override
  public boolean usesFabric() {
    return fabric.isConnected();
  }

  @Override
  public int queued() {
    return queue.size() + fabric.sending();
  }

  @Override
  public boolean isDiscardingFor(long ns) {
    return fabric.isDiscardingFor(ns, transport.nowNs());
  }

  @Override
  public long movedNs() {
    return movedNs;
  }

  @Override
  public long heardNs() {
    return heardNs;
  }

  @Override
  public long bytesReceived() {
    return received;
  }

  @Override
  public long bytesSent() {
    return sent;
  }
}
