package io.kvtier.protocol;

/**
 * The layout of the messages on the session's Unix socket ({@code SOCK_SEQPACKET}). The magic and
 * the version of hello, and the welcome up to its text, have the same places in every version. So
 * two sides of different versions can explain the mismatch.
 *
 * <p>A welcome brings three descriptors: the session's memory, a doorbell (eventfd) and the
 * daemon's memory; a refusal brings none. The answer to {@link #MAP_SLAB_MAGIC} brings the slab,
 * writable only where granted. With {@link #PASS_MEMORY_MAGIC} the client passes memory of a
 * device.
 *
 * <p>Little-endian. Generated from protocol/schema.toml.
 *
 * <pre>
 * hello, client to daemon; the name of the client and its version follow, UTF-8
 *     0 u64 magic            "KVTIERHI"
 *     8 u32 version
 *    12 u32 request ring     bytes
 *    16 u32 completion ring  bytes
 *    20 u16 name bytes
 *    22 u16 zero
 *    24 end
 * welcome or refusal, daemon to client; the daemon's version or the reason follows, UTF-8
 *     0 u64 magic       "KVTIEROK"
 *     8 u32 version
 *    12 u16 status
 *    14 u16 text bytes
 *    16 u64 session id
 *    24 u64 slab bytes
 *    32 u32 slab count
 *    36 u32 zero
 *    40 end
 * question, client to daemon
 *     0 u64 magic   what is asked
 *     8 u32 number  of the slab, or of the memory
 *    12 u32 word
 *    16 end
 * answer to a question, daemon to client
 *     0 u64 magic   what was asked
 *     8 u32 number
 *    12 u16 status
 *    14 u16 zero
 *    16 end
 * </pre>
 */
public final class HandshakeDescriptor {
  public static final long HELLO_MAGIC = 0x4948_5245_4954_564BL; // "KVTIERHI" in memory order
  public static final long WELCOME_MAGIC = 0x4B4F_5245_4954_564BL; // "KVTIEROK" in memory order

  /** Asks for a slab; the word is 1 for writing, else 0. */
  public static final long MAP_SLAB_MAGIC = 0x534D_5245_4954_564BL; // "KVTIERMS" in memory order

  /** Passes memory of a device under a number; the word is 0. */
  public static final long PASS_MEMORY_MAGIC = 0x4D50_5245_4954_564BL; // "KVTIERPM" in memory order

  /** The longest message of the handshake. */
  public static final int MESSAGE_BYTES_MAX = 4096;

  // Hello, client to daemon; the name of the client and its version follow, UTF-8
  public static final int HELLO_VERSION_OFFSET = 8;
  public static final int HELLO_REQUEST_RING_OFFSET = 12;
  public static final int HELLO_COMPLETION_RING_OFFSET = 16;
  public static final int HELLO_NAME_BYTES_OFFSET = 20;
  public static final int HELLO_NAME_OFFSET = 24;

  // Welcome or refusal, daemon to client; the daemon's version or the reason follows, UTF-8
  public static final int WELCOME_VERSION_OFFSET = 8;
  public static final int WELCOME_STATUS_OFFSET = 12;
  public static final int WELCOME_TEXT_BYTES_OFFSET = 14;
  public static final int WELCOME_SESSION_ID_OFFSET = 16;
  public static final int WELCOME_SLAB_BYTES_OFFSET = 24;
  public static final int WELCOME_SLAB_COUNT_OFFSET = 32;
  public static final int WELCOME_TEXT_OFFSET = 40;

  // Question, client to daemon
  public static final int QUESTION_NUMBER_OFFSET = 8;
  public static final int QUESTION_WORD_OFFSET = 12;
  public static final int QUESTION_BYTES = 16;

  // Answer to a question, daemon to client
  public static final int ANSWER_NUMBER_OFFSET = 8;
  public static final int ANSWER_STATUS_OFFSET = 12;
  public static final int ANSWER_BYTES = 16;

  private HandshakeDescriptor() {}
}
