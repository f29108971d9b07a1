package io.kvtier.protocol;

/**
 * The daemon's counters, in their order in the daemon's region. Append-only. Gauges say so.
 * Generated from protocol/schema.toml.
 */
public enum Counter {
  REQUESTS(512, "requests", "requests taken from rings"),
  LOOKUP_BLOCKS(520, "lookup_blocks", "blocks asked for by lookups"),
  LOOKUP_HITS(528, "lookup_hits", "blocks asked for by lookups that were in some tier"),
  ACQUIRE_BLOCKS(536, "acquire_blocks", "blocks asked for by gets"),
  HITS_HOST(544, "hits_host", "blocks asked for by gets and served from the host tier"),
  HITS_SSD(552, "hits_ssd", "blocks asked for by gets and served from the SSD tier"),
  MISSES(
      560,
      "misses",
      "blocks asked for by gets that were in no tier, or were lost to an error or a deadline"),
  JOINED(568, "joined", "gets that joined a transfer already in progress"),
  PUT_BLOCKS(576, "put_blocks", "blocks committed and made resident"),
  PUT_EXISTS(584, "put_exists", "puts of a block that was already stored"),
  PUT_BUSY(592, "put_busy", "puts refused, because there was no space or the queue was full"),
  EVICTIONS(600, "evictions", "blocks that left the host tier"),
  DEMOTIONS(608, "demotions", "blocks written from host to SSD"),
  PROMOTIONS(616, "promotions", "blocks read from SSD to host"),
  DROPPED(624, "dropped", "blocks that left the last tier they were in"),
  DELETED(632, "deleted", "blocks deleted or cleared by clients"),
  CORRUPT(640, "corrupt", "reads whose bytes or key did not verify"),
  IO_ERRORS(648, "io_errors", "device reads and writes that failed"),
  DEADLINES(656, "deadlines", "blocks whose deadline passed"),
  CANCELLED(664, "cancelled", "operations cancelled by clients"),
  LEASES_EXPIRED(672, "leases_expired", "leases ended by their time limit"),
  SESSIONS_OPENED(680, "sessions_opened", "sessions ever opened"),
  SESSIONS_ENDED_BAD(688, "sessions_ended_bad", "sessions ended for a protocol violation"),
  SESSIONS_REFUSED(
      696,
      "sessions_refused",
      "connections, remote calls and HTTP requests that were refused: no right, or too many"),
  HOST_READ_BYTES(704, "host_read_bytes", "bytes of blocks leased from the host tier"),
  HOST_WRITTEN_BYTES(712, "host_written_bytes", "bytes of blocks made resident in the host tier"),
  SSD_READ_BYTES(720, "ssd_read_bytes", "bytes read from SSD"),
  SSD_WRITTEN_BYTES(728, "ssd_written_bytes", "bytes written to SSD"),
  GAUGE_SESSIONS(736, "sessions", "gauge: open sessions"),
  GAUGE_LEASES(744, "leases", "gauge: leases held"),
  GAUGE_OPERATIONS(752, "operations", "gauge: operations in flight"),
  GAUGE_BLOCKS(760, "blocks", "gauge: blocks in the directory"),
  GAUGE_HOST_SLOTS_TOTAL(768, "host_slots_total", "gauge: host slots carved out of slabs"),
  GAUGE_HOST_SLOTS_FREE(776, "host_slots_free", "gauge: host slots that are free"),
  GAUGE_HOST_SLOTS_RESIDENT(784, "host_slots_resident", "gauge: host slots that hold a block"),
  GAUGE_HOST_SLOTS_IN_FLIGHT(
      792,
      "host_slots_in_flight",
      "gauge: host slots that clients reserved, or that are being filled or emptied"),
  GAUGE_SSD_SLOTS_TOTAL(800, "ssd_slots_total", "gauge: SSD slots carved out of files"),
  GAUGE_SSD_SLOTS_FREE(808, "ssd_slots_free", "gauge: SSD slots that are free"),
  GAUGE_SSD_SLOTS_RESIDENT(816, "ssd_slots_resident", "gauge: SSD slots that hold a block"),
  GAUGE_SSD_SLOTS_IN_FLIGHT(
      824, "ssd_slots_in_flight", "gauge: SSD slots that are being filled or emptied"),
  GAUGE_HOST_BYTES_USED(832, "host_bytes_used", "gauge: bytes of host slots in use"),
  GAUGE_HOST_BYTES_CAPACITY(840, "host_bytes_capacity", "gauge: bytes of all slabs"),
  GAUGE_SSD_BYTES_USED(848, "ssd_bytes_used", "gauge: bytes of SSD slots in use"),
  GAUGE_SSD_BYTES_CAPACITY(856, "ssd_bytes_capacity", "gauge: bytes of all SSD files"),
  GAUGE_INDEX_BYTES(
      864,
      "index_bytes",
      "gauge: bytes that directory and policies have for blocks; the system gives them as blocks come"),
  GAUGE_RESERVATIONS(872, "reservations", "gauge: slots reserved by clients and not yet committed"),
  NOT_ADMITTED(
      880,
      "not_admitted",
      "blocks evicted from the host tier that the SSD tier's admission refused"),
  SSD_EVICTIONS(888, "ssd_evictions", "copies that left the SSD tier to make space"),
  FOUND_HOST(896, "found_host", "blocks that the start found in memory, from before"),
  FOUND_SSD(904, "found_ssd", "blocks that the start found on SSD, from before"),
  FOUND_UNTRUE(
      912, "found_untrue", "rows that the start found damaged, or that could not be true any more"),
  SCRUBBED(920, "scrubbed", "copies on SSD that the background check read and verified"),
  SCRUBBED_CORRUPT(
      928,
      "scrubbed_corrupt",
      "copies on SSD that the background check found damaged, and dropped"),
  HITS_OBJECT(936, "hits_object", "blocks asked for by gets and served from the object tier"),
  OBJECT_FETCHED(944, "object_fetched", "blocks read from the object tier to host"),
  OBJECT_STORED(
      952, "object_stored", "blocks written to the object tier, or found there when written"),
  SPILLED(
      960,
      "spilled",
      "blocks evicted from the SSD tier after they were written to the object tier"),
  OBJECT_ERRORS(968, "object_errors", "reads and writes of objects that failed, or took too long"),
  OBJECT_READ_BYTES(976, "object_read_bytes", "bytes of blocks read from the object tier"),
  OBJECT_WRITTEN_BYTES(984, "object_written_bytes", "bytes of blocks written to the object tier"),
  GPU_OFFLOADED_BYTES(992, "gpu_offloaded_bytes", "bytes copied from GPUs to the host tier"),
  GPU_ONBOARDED_BYTES(1000, "gpu_onboarded_bytes", "bytes copied from the host tier to GPUs"),
  GPU_ERRORS(1008, "gpu_errors", "copies to and from GPUs that failed"),
  GAUGE_REGIONS(1016, "regions", "gauge: regions of GPU memory that engines have registered"),
  ANNOTATIONS_DROPPED(
      1024,
      "annotations_dropped",
      "annotations for which there was no space (limits.annotation_bytes)"),
  GAUGE_ANNOTATION_BYTES(1032, "annotation_bytes", "gauge: memory that annotations take"),
  SPANS_DROPPED(
      1040,
      "spans_dropped",
      "spans and log lines of requests that were lost: too many waited, or traces.endpoint did not accept them"),
  HITS_GPU(1048, "hits_gpu", "blocks asked for by gets and copied from another region, on any GPU"),
  GPU_PEER_BYTES(1056, "gpu_peer_bytes", "bytes copied from region to region"),
  GAUGE_ADVERTISED(1064, "advertised", "gauge: blocks in regions that others can be given"),
  ACQUIRE_BUSY(
      1072, "acquire_busy", "blocks asked for by gets for which no slot came free in memory"),
  KEEPER_RESTARTS(
      1080,
      "keeper_restarts",
      "times that the keeper process was ended, and another took its place"),
  GAUGE_KEEPER_MISSING(
      1088,
      "keeper_missing",
      "gauge: 1 while there is no keeper process, although host.keep asks for one"),
  RESERVATIONS_EXPIRED(
      1096,
      "reservations_expired",
      "reserved slots that clients lost, because they did not commit in time"),
  GAUGE_LATE_WRITES(
      1104, "late_writes", "gauge: slots that clients have lost and may still be writing"),
  PARTIAL_EXPIRED(
      1112,
      "partial_expired",
      "blocks that were dropped because some of their layers or heads did not come in time"),
  SAVED_TOKENS(
      1120, "saved_tokens", "tokens that engines loaded and did not compute, as they report"),
  SAVED_PREFILL_NS(
      1128,
      "saved_prefill_ns",
      "time that computing these tokens would have taken, at the speed that each engine has measured, ns"),
  SPENT_LOAD_NS(
      1136, "spent_load_ns", "time that the loads of these tokens took, failed ones too, ns"),
  TOOL_LOOKUP_BLOCKS(
      1144,
      "tool_lookup_blocks",
      "blocks asked for by lookups of kvtier's own tools, such as benchmarks"),
  TOOL_LOOKUP_HITS(
      1152,
      "tool_lookup_hits",
      "blocks asked for by lookups of kvtier's own tools that were in some tier"),
  TOOL_HITS(
      1160, "tool_hits", "blocks asked for by gets of kvtier's own tools and served from any tier"),
  TOOL_MISSES(
      1168,
      "tool_misses",
      "blocks asked for by gets of kvtier's own tools that were in no tier, or were lost"),
  GAUGE_RETAINED_BLOCKS(
      1176,
      "retained_blocks",
      "gauge: blocks that are retained: they stay on this node until their lifetime ends"),
  GAUGE_RETAINED_BYTES(1184, "retained_bytes", "gauge: bytes of retained blocks"),
  RETENTIONS_EXPIRED(1192, "retentions_expired", "retained blocks whose lifetime has ended"),
  RETENTIONS_REFUSED(
      1200,
      "retentions_refused",
      "blocks asked to be retained for which the tenant's quota had no space"),
  HITS_NODE(
      1208, "hits_node", "blocks asked for by gets and served from the memory of other nodes"),
  NODE_FETCHED(1216, "node_fetched", "blocks read from other nodes to host"),
  NODE_READ_BYTES(1224, "node_read_bytes", "bytes of blocks read from other nodes"),
  NODE_ERRORS(1232, "node_errors", "reads from other nodes that failed, or took too long"),
  NODE_SERVED(1240, "node_served", "blocks leased to other nodes"),
  NODE_SERVED_BYTES(1248, "node_served_bytes", "bytes of blocks leased to other nodes"),
  NODE_REFUSED(
      1256,
      "node_refused",
      "connections of other nodes that were refused, or cut off for what they sent"),
  PUT_ENCODED(1264, "put_encoded", "blocks committed in the encoded form of their namespace"),
  PUT_ENCODED_BYTES(1272, "put_encoded_bytes", "bytes of these blocks as they are stored"),
  PUT_ENCODED_RAW_BYTES(
      1280, "put_encoded_raw_bytes", "bytes of these blocks as they were before they were encoded"),
  PUT_RAW(
      1288,
      "put_raw",
      "blocks of namespaces with an encoding that were committed raw, because they did not fit, their client does not encode, or their GPU copies raw blocks faster"),
  MISSES_ENCODED(
      1296,
      "misses_encoded",
      "blocks that gets were refused because they are encoded and the client does not decode; also counted as misses"),
  NODE_PUSHED(1304, "node_pushed", "blocks pushed to other nodes"),
  NODE_PUSHED_BYTES(1312, "node_pushed_bytes", "bytes of blocks pushed to other nodes"),
  NODE_TAKEN(1320, "node_taken", "blocks that other nodes pushed here"),
  NODE_TAKEN_BYTES(1328, "node_taken_bytes", "bytes of blocks that other nodes pushed here"),
  NODE_TAKE_REFUSED(
      1336,
      "node_take_refused",
      "blocks that other nodes wanted to push and that were not taken, for another reason than that they were here already"),
  NODE_TAKE_CORRUPT(
      1344,
      "node_take_corrupt",
      "blocks that other nodes pushed here and whose bytes did not match their checksums"),
  GAUGE_PUSHED_BYTES(
      1352,
      "pushed_bytes",
      "gauge: bytes of pushed blocks in memory that nobody has used here; nodes.pushed_share bounds them"),
  GAUGE_NODES(
      1360, "nodes", "gauge: other nodes that are known, whether they can be reached or not"),
  NODES_LEFT(1368, "nodes_left", "other nodes that left, or were not seen any more"),
  NODE_EXPECTED(
      1376,
      "node_expected",
      "blocks that gets expected from a node while it wrote them, and that came whole"),
  NODE_EXPECTED_BYTES(1384, "node_expected_bytes", "bytes of these blocks"),
  NODE_EXPECTED_REFUSED(
      1392,
      "node_expected_refused",
      "blocks that gets expected from a node, and of which the node said that they do not come"),
  NODE_PIECES(1400, "node_pieces", "pieces in which expected blocks came"),
  GAUGE_EXPECTED(1408, "expected", "gauge: blocks that are expected from other nodes"),
  GAUGE_FOLLOWED(1416, "followed", "gauge: blocks that other nodes expect from here"),
  NODE_EXPECTED_LATE(
      1424,
      "node_expected_late",
      "blocks that gets expected from a node, and that did not come in time"),
  NODE_EXPECTED_UNWANTED(
      1432,
      "node_expected_unwanted",
      "blocks that gets expected from a node until nobody waited for them any more"),
  NODE_EXPECTED_UNREACHABLE(
      1440,
      "node_expected_unreachable",
      "blocks that gets expected from a node that was unknown or not connected"),
  NODE_EXPECTED_BROKEN(
      1448,
      "node_expected_broken",
      "blocks that gets expected from a node until the connection broke"),
  NODE_EXPECTED_CORRUPT(
      1456,
      "node_expected_corrupt",
      "blocks that gets expected from a node, and whose bytes did not match their checksums");

  private final int offset;
  private final String key;
  private final String meaning;

  Counter(int offset, String key, String meaning) {
    this.offset = offset;
    this.key = key;
    this.meaning = meaning;
  }

  /** The offset of the counter in the daemon's region, bytes. */
  public int offset() {
    return offset;
  }

  /** The name in JSON and in the generated Python. */
  public String key() {
    return key;
  }

  /** The meaning, for people. */
  public String meaning() {
    return meaning;
  }
}
