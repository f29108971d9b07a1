package io.kvtier.protocol;

import java.util.List;

/** The daemon's counters, in their order in the daemon's region. Append-only. Gauges say so. */
public enum Counter {
  REQUESTS("requests", "requests taken from rings"),
  LOOKUP_BLOCKS("lookup_blocks", "blocks asked for by lookups"),
  LOOKUP_HITS("lookup_hits", "blocks asked for by lookups that were in some tier"),
  ACQUIRE_BLOCKS("acquire_blocks", "blocks asked for by gets"),
  HITS_HOST("hits_host", "blocks asked for by gets and served from the host tier"),
  HITS_SSD("hits_ssd", "blocks asked for by gets and served from the SSD tier"),
  MISSES(
      "misses",
      "blocks asked for by gets that were in no tier, or were lost to an error or a deadline"),
  JOINED("joined", "gets that joined a transfer already in progress"),
  PUT_BLOCKS("put_blocks", "blocks committed and made resident"),
  PUT_EXISTS("put_exists", "puts of a block that was already stored"),
  PUT_BUSY("put_busy", "puts refused, because there was no space or the queue was full"),
  EVICTIONS("evictions", "blocks that left the host tier"),
  DEMOTIONS("demotions", "blocks written from host to SSD"),
  PROMOTIONS("promotions", "blocks read from SSD to host"),
  DROPPED("dropped", "blocks that left the last tier they were in"),
  DELETED("deleted", "blocks deleted or cleared by clients"),
  CORRUPT("corrupt", "reads whose bytes or key did not verify"),
  IO_ERRORS("io_errors", "device reads and writes that failed"),
  DEADLINES("deadlines", "blocks whose deadline passed"),
  CANCELLED("cancelled", "operations cancelled by clients"),
  LEASES_EXPIRED("leases_expired", "leases ended by their time limit"),
  SESSIONS_OPENED("sessions_opened", "sessions ever opened"),
  SESSIONS_ENDED_BAD("sessions_ended_bad", "sessions ended for a protocol violation"),
  SESSIONS_REFUSED(
      "sessions_refused",
      "connections, remote calls and HTTP requests that were refused: no right, or too many"),
  HOST_READ_BYTES("host_read_bytes", "bytes of blocks leased from the host tier"),
  HOST_WRITTEN_BYTES("host_written_bytes", "bytes of blocks made resident in the host tier"),
  SSD_READ_BYTES("ssd_read_bytes", "bytes read from SSD"),
  SSD_WRITTEN_BYTES("ssd_written_bytes", "bytes written to SSD"),
  GAUGE_SESSIONS("sessions", "gauge: open sessions"),
  GAUGE_LEASES("leases", "gauge: leases held"),
  GAUGE_OPERATIONS("operations", "gauge: operations in flight"),
  GAUGE_BLOCKS("blocks", "gauge: blocks in the directory"),
  GAUGE_HOST_SLOTS_TOTAL("host_slots_total", "gauge: host slots carved out of slabs"),
  GAUGE_HOST_SLOTS_FREE("host_slots_free", "gauge: host slots that are free"),
  GAUGE_HOST_SLOTS_RESIDENT("host_slots_resident", "gauge: host slots that hold a block"),
  GAUGE_HOST_SLOTS_IN_FLIGHT(
      "host_slots_in_flight",
      "gauge: host slots that clients reserved, or that are being filled or emptied"),
  GAUGE_SSD_SLOTS_TOTAL("ssd_slots_total", "gauge: SSD slots carved out of files"),
  GAUGE_SSD_SLOTS_FREE("ssd_slots_free", "gauge: SSD slots that are free"),
  GAUGE_SSD_SLOTS_RESIDENT("ssd_slots_resident", "gauge: SSD slots that hold a block"),
  GAUGE_SSD_SLOTS_IN_FLIGHT(
      "ssd_slots_in_flight", "gauge: SSD slots that are being filled or emptied"),
  GAUGE_HOST_BYTES_USED("host_bytes_used", "gauge: bytes of host slots in use"),
  GAUGE_HOST_BYTES_CAPACITY("host_bytes_capacity", "gauge: bytes of all slabs"),
  GAUGE_SSD_BYTES_USED("ssd_bytes_used", "gauge: bytes of SSD slots in use"),
  GAUGE_SSD_BYTES_CAPACITY("ssd_bytes_capacity", "gauge: bytes of all SSD files"),
  GAUGE_INDEX_BYTES(
      "index_bytes",
      "gauge: bytes that directory and policies have for blocks; the system gives them as blocks come"),
  GAUGE_RESERVATIONS("reservations", "gauge: slots reserved by clients and not yet committed"),
  NOT_ADMITTED(
      "not_admitted", "blocks evicted from the host tier that the SSD tier's admission refused"),
  SSD_EVICTIONS("ssd_evictions", "copies that left the SSD tier to make space"),
  FOUND_HOST("found_host", "blocks that the start found in memory, from before"),
  FOUND_SSD("found_ssd", "blocks that the start found on SSD, from before"),
  FOUND_UNTRUE(
      "found_untrue", "rows that the start found damaged, or that could not be true any more"),
  SCRUBBED("scrubbed", "copies on SSD that the background check read and verified"),
  SCRUBBED_CORRUPT(
      "scrubbed_corrupt", "copies on SSD that the background check found damaged, and dropped"),
  HITS_OBJECT("hits_object", "blocks asked for by gets and served from the object tier"),
  OBJECT_FETCHED("object_fetched", "blocks read from the object tier to host"),
  OBJECT_STORED("object_stored", "blocks written to the object tier, or found there when written"),
  SPILLED("spilled", "blocks evicted from the SSD tier after they were written to the object tier"),
  OBJECT_ERRORS("object_errors", "reads and writes of objects that failed, or took too long"),
  OBJECT_READ_BYTES("object_read_bytes", "bytes of blocks read from the object tier"),
  OBJECT_WRITTEN_BYTES("object_written_bytes", "bytes of blocks written to the object tier"),
  GPU_OFFLOADED_BYTES("gpu_offloaded_bytes", "bytes copied from GPUs to the host tier"),
  GPU_ONBOARDED_BYTES("gpu_onboarded_bytes", "bytes copied from the host tier to GPUs"),
  GPU_ERRORS("gpu_errors", "copies to and from GPUs that failed"),
  GAUGE_REGIONS("regions", "gauge: regions of GPU memory that engines have registered"),
  ANNOTATIONS_DROPPED(
      "annotations_dropped", "annotations for which there was no space (limits.annotation_bytes)"),
  GAUGE_ANNOTATION_BYTES("annotation_bytes", "gauge: memory that annotations take"),
  SPANS_DROPPED(
      "spans_dropped",
      "spans and log lines of requests that were lost: too many waited, or traces.endpoint did"
          + " not accept them"),
  HITS_GPU("hits_gpu", "blocks asked for by gets and copied from another region, on any GPU"),
  GPU_PEER_BYTES("gpu_peer_bytes", "bytes copied from region to region"),
  GAUGE_ADVERTISED("advertised", "gauge: blocks in regions that others can be given"),
  ACQUIRE_BUSY("acquire_busy", "blocks asked for by gets for which no slot came free in memory"),
  KEEPER_RESTARTS(
      "keeper_restarts", "times that the keeper process was ended, and another took its place"),
  GAUGE_KEEPER_MISSING(
      "keeper_missing",
      "gauge: 1 while there is no keeper process, although host.keep asks for one"),
  RESERVATIONS_EXPIRED(
      "reservations_expired",
      "reserved slots that clients lost, because they did not commit in time"),
  GAUGE_LATE_WRITES("late_writes", "gauge: slots that clients have lost and may still be writing");

  /** Blocks that gets were given, one for each place that they came from. */
  public static final List<Counter> HITS = List.of(HITS_HOST, HITS_SSD, HITS_OBJECT, HITS_GPU);

  private final String key;
  private final String meaning;

  Counter(String key, String meaning) {
    this.key = key;
    this.meaning = meaning;
  }

  /** The counter's place in the daemon's region, in bytes. */
  @SuppressWarnings("EnumOrdinal") // the order of this enum is the layout, and append-only
  public int offset() {
    return DaemonRegionDescriptor.COUNTERS_OFFSET + 8 * ordinal();
  }

  /** The name in JSON and in the generated Python. */
  public String key() {
    return key;
  }

  public String meaning() {
    return meaning;
  }
}
