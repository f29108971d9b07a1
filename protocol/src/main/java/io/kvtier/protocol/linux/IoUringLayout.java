package io.kvtier.protocol.linux;

/**
 * Numbers and layouts of Linux's {@code linux/io_uring.h}, native-endian; the same on each {@link
 * Machine}.
 *
 * <pre>
 *   io_uring_params, 120 bytes
 *     0 u32 sq_entries  4 u32 cq_entries  8 u32 flags  20 u32 features
 *    40 offsets of the submission ring:  +0 head  +4 tail  +8 mask  +24 array, u32 each
 *    80 offsets of the completion ring:  +0 head  +4 tail  +8 mask  +20 entries, u32 each
 *   io_uring_sqe, 64 bytes
 *     0 u8 opcode  1 u8 flags  4 i32 descriptor  8 u64 offset  16 u64 address  24 u32 length
 *    32 u64 user data
 *   io_uring_cqe, 16 bytes
 *     0 u64 user data  8 i32 result  12 u32 flags
 *   io_uring_probe, 16 + 8 n bytes
 *     1 u8 count   16 + 8 i: u8 opcode, +2 u16 flags
 * </pre>
 */
final class IoUringLayout {
  static final long SETUP_CALL = 425;
  static final long ENTER_CALL = 426;
  static final long REGISTER_CALL = 427;

  static final int PARAMS_BYTES = 120;
  static final int PARAMS_SQ_ENTRIES = 0;
  static final int PARAMS_CQ_ENTRIES = 4;
  static final int PARAMS_FLAGS = 8;
  static final int PARAMS_FEATURES = 20;
  static final int PARAMS_SQ_HEAD = 40;
  static final int PARAMS_SQ_TAIL = 44;
  static final int PARAMS_SQ_MASK = 48;
  static final int PARAMS_SQ_ARRAY = 64;
  static final int PARAMS_CQ_HEAD = 80;
  static final int PARAMS_CQ_TAIL = 84;
  static final int PARAMS_CQ_MASK = 88;
  static final int PARAMS_CQ_ENTRIES_AT = 100;

  /** Begins disabled, so that another thread than the creator can become the one that submits. */
  static final int SETUP_R_DISABLED = 1 << 6;

  /** A bad submission does not hold up those behind it. */
  static final int SETUP_SUBMIT_ALL = 1 << 7;

  static final int SETUP_SINGLE_ISSUER = 1 << 12;

  /** Completions are worked on when the thread asks for them, not by interrupting it. */
  static final int SETUP_DEFER_TASKRUN = 1 << 13;

  /** Both rings are in one mapping. */
  static final int FEATURE_SINGLE_MMAP = 1;

  /** No completion is lost when the completion ring is full. */
  static final int FEATURE_NODROP = 1 << 1;

  static final long RINGS_AT = 0;
  static final long ENTRIES_AT = 0x10000000L;

  static final int ENTER_GETEVENTS = 1;

  static final int REGISTER_FILES = 2;
  static final int REGISTER_PROBE = 8;
  static final int REGISTER_ENABLE_RINGS = 12;

  static final byte OP_READV = 1;
  static final byte OP_WRITEV = 2;
  static final byte OP_READ = 22;

  static final int SQE_BYTES = 64;
  static final int SQE_OPCODE = 0;
  static final int SQE_FLAGS = 1;
  static final int SQE_DESCRIPTOR = 4;
  static final int SQE_OFFSET = 8;
  static final int SQE_ADDRESS = 16;
  static final int SQE_LENGTH = 24;
  static final int SQE_USER_DATA = 32;

  /** The descriptor is an index into the registered files. */
  static final byte SQE_FIXED_FILE = 1;

  static final int CQE_BYTES = 16;
  static final int CQE_USER_DATA = 0;
  static final int CQE_RESULT = 8;

  static final int PROBE_HEADER_BYTES = 16;
  static final int PROBE_ENTRY_BYTES = 8;
  static final int PROBE_ENTRIES = 256;
  static final int PROBE_COUNT = 1;
  static final int PROBE_FLAGS = 2;
  static final int PROBE_SUPPORTED = 1;

  private IoUringLayout() {}
}
