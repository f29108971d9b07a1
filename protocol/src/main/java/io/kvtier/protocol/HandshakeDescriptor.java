package io.kvtier.protocol;

/**
 * The layout of the messages on the session's Unix socket ({@code SOCK_SEQPACKET}). Little-endian.
 *
 * <pre>
 * hello, client to daemon                      welcome or refusal, daemon to client
 *    0  u64 magic "KVTIERHI"                      0  u64 magic "KVTIEROK"
 *    8  u32 protocol version                      8  u32 protocol version
 *   12  u32 request ring bytes                   12  u16 status   14  u16 text bytes
 *   16  u32 completion ring bytes                16  u64 session id
 *   20  u16 name bytes   22  u16 zero            24  u64 slab bytes
 *   24  name, UTF-8: the client and its version  32  u32 slab count  36  u32 zero
 *                                                40  text, UTF-8: the daemon's version, or why not
 *                                                descriptors: session memory, doorbell (eventfd), daemon memory
 *
 * map slab, client to daemon                   answer
 *    0  u64 magic "KVTIERMS"                      0  u64 magic "KVTIERMS"
 *    8  u32 slab   12  u32 1 = for writing        8  u32 slab   12  u16 status   14  u16 zero
 *                                                descriptor: the slab, writable only where granted
 *
 * pass memory, client to daemon                answer
 *    0  u64 magic "KVTIERPM"                      0  u64 magic "KVTIERPM"
 *    8  u32 number   12  u32 zero                 8  u32 number   12  u16 status   14  u16 zero
 *    descriptor: memory of a device
 * </pre>
 */
public final class HandshakeDescriptor {
  public static final long HELLO_MAGIC = 0x4948_5245_4954_564BL;
  public static final long WELCOME_MAGIC = 0x4B4F_5245_4954_564BL;
  public static final long MAP_SLAB_MAGIC = 0x534D_5245_4954_564BL;

  /** Since version 1.4. */
  public static final long PASS_MEMORY_MAGIC = 0x4D50_5245_4954_564BL;

  public static final int VERSION_OFFSET = 8;
  public static final int HELLO_REQUEST_RING_OFFSET = 12;
  public static final int HELLO_COMPLETION_RING_OFFSET = 16;
  public static final int HELLO_NAME_BYTES_OFFSET = 20;
  public static final int HELLO_NAME_OFFSET = 24;
  public static final int WELCOME_STATUS_OFFSET = 12;
  public static final int WELCOME_TEXT_BYTES_OFFSET = 14;
  public static final int WELCOME_SESSION_ID_OFFSET = 16;
  public static final int WELCOME_SLAB_BYTES_OFFSET = 24;
  public static final int WELCOME_SLAB_COUNT_OFFSET = 32;
  public static final int WELCOME_TEXT_OFFSET = 40;

  // What is asked after the handshake, and its answers, all have one layout.
  public static final int QUESTION_NUMBER_OFFSET = 8;
  public static final int QUESTION_WORD_OFFSET = 12;
  public static final int QUESTION_STATUS_OFFSET = 12;
  public static final int QUESTION_BYTES = 16;

  /** The longest message of the handshake. */
  public static final int MESSAGE_BYTES_MAX = 4096;

  private HandshakeDescriptor() {}
}
