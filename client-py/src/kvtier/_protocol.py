"""Constants of the kvtier protocol. Generated from protocol/schema.toml by scripts/generate; do not edit."""

from enum import IntEnum
from struct import Struct


class Status(IntEnum):
    """The outcome of an operation or of one of its blocks; printed by its name.

    OK: done
    MISS: the block is not here
    PENDING: the block is on its way: being written, or moving between tiers
    EXISTS: the block is already here; nothing was done, and that is a success
    BUSY: a limit is reached; try again later
    DEADLINE: the deadline passed before the block was ready
    CANCELLED: cancelled by its client
    UNAVAILABLE: no daemon answers; the client reconnects by itself
    NAMESPACE_UNKNOWN: the namespace was not registered in this session
    NAMESPACE_MISMATCH: the namespace is registered with other properties
    INVALID_ARGUMENT: an argument is out of its range
    CORRUPT: the bytes do not match their checksum; the block was dropped
    STALE: the lease or reservation is no longer valid
    DENIED: the peer may not do this
    VERSION_MISMATCH: client and daemon speak different versions of the protocol
    SESSION_ENDED: the session has ended
    IO_ERROR: a device failed
    TOO_LARGE: larger than a limit allows
    INTERNAL: a defect of the daemon
    NOT_ADMITTED: no new block is taken: the daemon is drained
    OVER_QUOTA: more than the tenant may retain
    """

    OK = 0
    MISS = 1
    PENDING = 2
    EXISTS = 3
    BUSY = 4
    DEADLINE = 5
    CANCELLED = 6
    UNAVAILABLE = 7
    NAMESPACE_UNKNOWN = 8
    NAMESPACE_MISMATCH = 9
    INVALID_ARGUMENT = 10
    CORRUPT = 11
    STALE = 12
    DENIED = 13
    VERSION_MISMATCH = 14
    SESSION_ENDED = 15
    IO_ERROR = 16
    TOO_LARGE = 17
    INTERNAL = 18
    NOT_ADMITTED = 19
    OVER_QUOTA = 20

    def __str__(self) -> str:
        return self.name


class Verb(IntEnum):
    """The operation that a request asks for."""

    PING = 1
    REGISTER = 2
    UNREGISTER = 3
    LOOKUP = 4
    RESERVE = 5
    COMMIT = 6
    ABORT = 7
    ACQUIRE = 8
    RELEASE = 9
    PREFETCH = 10
    PIN = 11
    UNPIN = 12
    DELETE = 13
    CLEAR = 14
    FLUSH = 15
    CANCEL = 16
    STATS = 17
    ADMIN = 18
    REGISTER_REGION = 19
    UNREGISTER_REGION = 20
    OFFLOAD = 21
    ONBOARD = 22
    ANNOTATE = 24
    ADVERTISE = 25
    REVOKE = 26
    REPORT_LOADS = 27
    LOOKUP_GROUPS = 28
    RETAIN = 29


class Tier(IntEnum):
    """The tier of a block."""

    NONE = 0
    GPU = 1
    HOST = 2
    SSD = 3
    OBJECT = 4
    NODE = 5


COUNTERS = (
    "requests",
    "lookup_blocks",
    "lookup_hits",
    "acquire_blocks",
    "hits_host",
    "hits_ssd",
    "misses",
    "joined",
    "put_blocks",
    "put_exists",
    "put_busy",
    "evictions",
    "demotions",
    "promotions",
    "dropped",
    "deleted",
    "corrupt",
    "io_errors",
    "deadlines",
    "cancelled",
    "leases_expired",
    "sessions_opened",
    "sessions_ended_bad",
    "sessions_refused",
    "host_read_bytes",
    "host_written_bytes",
    "ssd_read_bytes",
    "ssd_written_bytes",
    "sessions",
    "leases",
    "operations",
    "blocks",
    "host_slots_total",
    "host_slots_free",
    "host_slots_resident",
    "host_slots_in_flight",
    "ssd_slots_total",
    "ssd_slots_free",
    "ssd_slots_resident",
    "ssd_slots_in_flight",
    "host_bytes_used",
    "host_bytes_capacity",
    "ssd_bytes_used",
    "ssd_bytes_capacity",
    "index_bytes",
    "reservations",
    "not_admitted",
    "ssd_evictions",
    "found_host",
    "found_ssd",
    "found_untrue",
    "scrubbed",
    "scrubbed_corrupt",
    "hits_object",
    "object_fetched",
    "object_stored",
    "spilled",
    "object_errors",
    "object_read_bytes",
    "object_written_bytes",
    "gpu_offloaded_bytes",
    "gpu_onboarded_bytes",
    "gpu_errors",
    "regions",
    "annotations_dropped",
    "annotation_bytes",
    "spans_dropped",
    "hits_gpu",
    "gpu_peer_bytes",
    "advertised",
    "acquire_busy",
    "keeper_restarts",
    "keeper_missing",
    "reservations_expired",
    "late_writes",
    "partial_expired",
    "saved_tokens",
    "saved_prefill_ns",
    "spent_load_ns",
    "tool_lookup_blocks",
    "tool_lookup_hits",
    "tool_hits",
    "tool_misses",
    "retained_blocks",
    "retained_bytes",
    "retentions_expired",
    "retentions_refused",
    "hits_node",
    "node_fetched",
    "node_read_bytes",
    "node_errors",
    "node_served",
    "node_served_bytes",
    "node_refused",
    "put_encoded",
    "put_encoded_bytes",
    "put_encoded_raw_bytes",
    "put_raw",
    "misses_encoded",
    "node_pushed",
    "node_pushed_bytes",
    "node_taken",
    "node_taken_bytes",
    "node_take_refused",
    "node_take_corrupt",
    "pushed_bytes",
    "nodes",
    "nodes_left",
    "node_expected",
    "node_expected_bytes",
    "node_expected_refused",
    "node_pieces",
    "expected",
    "followed",
    "node_expected_late",
    "node_expected_unwanted",
    "node_expected_unreachable",
    "node_expected_broken",
    "node_expected_corrupt",
)
"""The daemon's counters, in their order in its region."""

VERSION_MAJOR = 2
VERSION_MINOR = 4
VERSION = 131076
KEYS_MAX = 2048
KEY_BYTES_MAX = 32
TEXT_BYTES_MAX = 4096
REGION_TEXT_BYTES_MAX = 65536
RING_BYTES_MIN = 262144
RING_BYTES_DEFAULT = 1048576
RING_BYTES_MAX = 67108864
SESSION_MAGIC = 0x525352454954564B
SESSION_PROGRESS_WORDS = 256
SESSION_RECORD_ALIGNMENT = 8
SESSION_MAGIC_OFFSET = 0
SESSION_VERSION_OFFSET = 8
SESSION_READY_OFFSET = 12
SESSION_SESSION_ID_OFFSET = 16
SESSION_REGION_BYTES_OFFSET = 24
SESSION_REQUEST_RING_BYTES_OFFSET = 32
SESSION_COMPLETION_RING_BYTES_OFFSET = 40
SESSION_REQUEST_TAIL_OFFSET = 128
SESSION_REQUEST_HEAD_OFFSET = 256
SESSION_COMPLETION_TAIL_OFFSET = 384
SESSION_COMPLETION_HEAD_OFFSET = 512
SESSION_CLIENT_WAITING_OFFSET = 640
SESSION_CLIENT_CPU_OFFSET = 644
SESSION_END_REASON_OFFSET = 768
SESSION_PROGRESS_OFFSET = 1024
SESSION_HEADER_BYTES = 4096
DAEMON_MAGIC = 0x524452454954564B
DAEMON_MAGIC_OFFSET = 0
DAEMON_VERSION_OFFSET = 8
DAEMON_READY_OFFSET = 12
DAEMON_GENERATION_OFFSET = 16
DAEMON_PROCESS_ID_OFFSET = 24
DAEMON_START_TIME_OFFSET = 32
DAEMON_SLAB_BYTES_OFFSET = 40
DAEMON_SLAB_COUNT_OFFSET = 48
DAEMON_COUNTER_COUNT_OFFSET = 52
DAEMON_INDEX_WAITING_OFFSET = 128
DAEMON_INDEX_CPU_OFFSET = 132
DAEMON_HEARTBEAT_OFFSET = 256
DAEMON_COUNTERS_OFFSET = 512
DAEMON_REGION_BYTES = 4096
REQUEST_FLAG_PARENT = 1
REQUEST_FLAG_SILENT = 2
REQUEST_FLAG_LEADING_RUN = 4
REQUEST_FLAG_NO_WAIT = 8
REQUEST_FLAG_CHECKSUMS = 16
REQUEST_FLAG_CORRUPT = 32
REQUEST_FLAG_CONTEXT = 64
REQUEST_IMPORTANCE_MASK = 384
REQUEST_IMPORTANCE_SHIFT = 7
REQUEST_IMPORTANCE_NORMAL = 1
REQUEST_IMPORTANCE_MAX = 3
REQUEST_FLAG_ENCODED = 512
REQUEST_FLAG_FRESH = 1024
REQUEST_FLAG_EXPECTED = 2048
REQUEST_FLAGS_ALL = 4095
REQUEST_PRIORITY_HIGH = 0
REQUEST_PRIORITY_NORMAL = 1
REQUEST_PRIORITY_LOW = 2
REQUEST_NAMESPACE_ALL = 0x7FFFFFFF
REQUEST_RECORD_BYTES_OFFSET = 0
REQUEST_VERB_OFFSET = 4
REQUEST_FLAGS_OFFSET = 6
REQUEST_CORRELATION_OFFSET = 8
REQUEST_DEADLINE_OFFSET = 16
REQUEST_NAMESPACE_OFFSET = 24
REQUEST_GROUP_OFFSET = 28
REQUEST_PRIORITY_OFFSET = 30
REQUEST_KEY_BYTES_OFFSET = 31
REQUEST_COUNT_OFFSET = 32
REQUEST_DEPTH_OFFSET = 36
REQUEST_ARGUMENT_OFFSET = 40
REQUEST_REGION_OFFSET = 48
REQUEST_FIRST_LAYER_OFFSET = 52
REQUEST_END_LAYER_OFFSET = 54
REQUEST_EVENT_OFFSET = 56
REQUEST_PROGRESS_OFFSET = 60
REQUEST_SHARD_OFFSET = 64
REQUEST_RESERVED_OFFSET = 68
REQUEST_HEADER_BYTES = 96
REQUEST_CONTEXT_TRACE_OFFSET = 0
REQUEST_CONTEXT_SPAN_OFFSET = 16
REQUEST_CONTEXT_WRITTEN_OFFSET = 24
REQUEST_CONTEXT_FLAGS_OFFSET = 32
REQUEST_CONTEXT_BYTES = 40
ANNOTATION_ANNOTATION_BYTES_MAX = 2048
ANNOTATION_BODY_BYTES_MAX = 4096
ANNOTATION_KEY_BYTES_OFFSET = 0
ANNOTATION_ANNOTATION_BYTES_OFFSET = 2
ANNOTATION_KEY_OFFSET = 8
LOAD_REPORT_BLOCKS_MAX = 65536
LOAD_REPORT_BLOCK_TOKENS_MAX = 65536
LOAD_REPORT_TOKEN_S_MAX = 1
LOAD_REPORT_LOADS_S_MAX = 86400
LOAD_REPORT_BLOCKS_OFFSET = 0
LOAD_REPORT_TOKENS_OFFSET = 8
LOAD_REPORT_PREFILL_NS_OFFSET = 16
LOAD_REPORT_LOAD_NS_OFFSET = 24
LOAD_REPORT_BYTES = 32
COMPLETION_FLAG_TEXT = 1
COMPLETION_FLAG_PEERS = 2
COMPLETION_BLOCK_FLAG_VERIFY = 1
COMPLETION_BLOCK_FLAG_ENCODED = 2
COMPLETION_RECORD_BYTES_OFFSET = 0
COMPLETION_VERB_OFFSET = 4
COMPLETION_FLAGS_OFFSET = 6
COMPLETION_CORRELATION_OFFSET = 8
COMPLETION_COUNT_OFFSET = 16
COMPLETION_RUN_OFFSET = 20
COMPLETION_VALUE_OFFSET = 24
COMPLETION_STATUS_OFFSET = 32
COMPLETION_HEADER_BYTES = 48
COMPLETION_SHORT_RESULT_BYTES = 4
COMPLETION_BLOCK_STATUS_OFFSET = 0
COMPLETION_BLOCK_TIER_OFFSET = 2
COMPLETION_BLOCK_FLAGS_OFFSET = 3
COMPLETION_BLOCK_CHECKSUM_OFFSET = 4
COMPLETION_BLOCK_ID_OFFSET = 8
COMPLETION_BLOCK_SLAB_OFFSET = 16
COMPLETION_BLOCK_LENGTH_OFFSET = 20
COMPLETION_BLOCK_OFFSET_OFFSET = 24
COMPLETION_LONG_RESULT_BYTES = 32
COMPLETION_PEERS_RUN_OFFSET = 0
COMPLETION_PEERS_REGION_OFFSET = 4
COMPLETION_PEERS_GPU_OFFSET = 8
COMPLETION_PEERS_RANK_OFFSET = 12
COMPLETION_PEERS_BYTES = 16
HANDSHAKE_HELLO_MAGIC = 0x494852454954564B
HANDSHAKE_WELCOME_MAGIC = 0x4B4F52454954564B
HANDSHAKE_MAP_SLAB_MAGIC = 0x534D52454954564B
HANDSHAKE_PASS_MEMORY_MAGIC = 0x4D5052454954564B
HANDSHAKE_MESSAGE_BYTES_MAX = 4096
HANDSHAKE_HELLO_VERSION_OFFSET = 8
HANDSHAKE_HELLO_REQUEST_RING_OFFSET = 12
HANDSHAKE_HELLO_COMPLETION_RING_OFFSET = 16
HANDSHAKE_HELLO_NAME_BYTES_OFFSET = 20
HANDSHAKE_HELLO_NAME_OFFSET = 24
HANDSHAKE_WELCOME_VERSION_OFFSET = 8
HANDSHAKE_WELCOME_STATUS_OFFSET = 12
HANDSHAKE_WELCOME_TEXT_BYTES_OFFSET = 14
HANDSHAKE_WELCOME_SESSION_ID_OFFSET = 16
HANDSHAKE_WELCOME_SLAB_BYTES_OFFSET = 24
HANDSHAKE_WELCOME_SLAB_COUNT_OFFSET = 32
HANDSHAKE_WELCOME_TEXT_OFFSET = 40
HANDSHAKE_QUESTION_NUMBER_OFFSET = 8
HANDSHAKE_QUESTION_WORD_OFFSET = 12
HANDSHAKE_QUESTION_BYTES = 16
HANDSHAKE_ANSWER_NUMBER_OFFSET = 8
HANDSHAKE_ANSWER_STATUS_OFFSET = 12
HANDSHAKE_ANSWER_BYTES = 16
REQUEST_HEADER = Struct("<IHHQQIHBBIIQIHHIIII24x")
"""record bytes, verb, flags, correlation, deadline, namespace, group, priority, key bytes, count, depth, argument, region, first layer, end layer, event, progress, shard, reserved"""
ANNOTATION_ENTRY = Struct("<BBHI")
"""key bytes, zero, annotation bytes, zero"""
LOAD_REPORT = Struct("<IIQQQ")
"""blocks, zero, tokens, prefill ns, load ns"""
COMPLETION_HEADER = Struct("<IHHQIIQHHIQ")
"""record bytes, verb, flags, correlation, count, run, value, status, zero, zero, zero"""
COMPLETION_SHORT_RESULT = Struct("<HBB")
"""status, tier, zero"""
COMPLETION_LONG_RESULT = Struct("<HBBIQIIQ")
"""status, tier, flags, checksum, id, slab, length, offset"""
COMPLETION_PEERS = Struct("<IIII")
"""run, region, gpu, rank"""
HANDSHAKE_HELLO = Struct("<QIIIHH")
"""magic, version, request ring, completion ring, name bytes, zero"""
HANDSHAKE_WELCOME = Struct("<QIHHQQII")
"""magic, version, status, text bytes, session id, slab bytes, slab count, zero"""
HANDSHAKE_QUESTION = Struct("<QII")
"""magic, number, word"""
HANDSHAKE_ANSWER = Struct("<QIHH")
"""magic, number, status, zero"""
PLANE = Struct("<QQQQQQ4Q4Q4Q")
"""address, blocks, block stride, offset, run bytes, axes, counts, strides, slot strides"""
