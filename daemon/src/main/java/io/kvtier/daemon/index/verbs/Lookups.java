package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Accounts;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.device.Peers;
import io.kvtier.daemon.index.device.Region;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.source.ReadTimes;
import io.kvtier.daemon.index.source.Sources;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.trace.TraceRecorder;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.linux.Words;
import java.util.Arrays;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/** LOOKUP and LOOKUP_GROUPS: answered from the knowledge of the index. Confined to the index. */
public final class Lookups {
  private static final long[] NOTHING = {};

  private final Directory directory;
  private final BlockStore store;
  private final ResidentTier first;
  private final Namespaces namespaces;
  private final Peers peers;
  private final Admin admin;
  private final CompletionWriter writer;
  private final Counters counters;
  private final Accounts accounts;
  private final LongSupplier clock;
  private final Sources sources;

  /** How many blocks of the lookup under way would come from each source. */
  private final int[] fetches;

  /** The sources' own estimates; null for those that have none. */
  private final @Nullable ReadTimes[] times;

  Lookups(IndexCore core, CompletionWriter writer, BlockStore store, Peers peers, Admin admin) {
    directory = core.directory();
    namespaces = core.namespaces();
    counters = core.counters();
    accounts = core.accounts();
    clock = core.clock();
    this.writer = writer;
    this.store = store;
    first = store.first();
    sources = store.sources();
    fetches = new int[sources.count()];
    times = new ReadTimes[sources.count()];
    for (int source = 0; source < times.length; source++) {
      times[source] = sources.at(source).readTimes();
    }
    this.peers = peers;
    this.admin = admin;
  }

  /** Answers a request. The sources are asked about unknown blocks, for a later lookup. */
  void lookup(Session session, Request request) throws ProtocolViolation {
    Region holder = peers.longest(request);
    if (holder == null) {
      writer.begin(session, request);
    } else {
      int prefix = peers.advertised().prefix();
      writer.beginWithRegion(session, request, prefix, holder.id, holder.gpuOrdinal(), holder.rank);
    }
    long readNs = find(request);
    writer.end(request, readNs);
  }

  /**
   * Answers a request that names a namespace for each key. Namespaces that the session has not
   * registered are unknown.
   */
  void lookupGroups(Session session, Request request) throws ProtocolViolation {
    writer.begin(session, request);
    int count = request.count;
    long body = request.body;
    long numbers = request.target(0);
    long readNs = 0;
    for (int begin = 0, end; begin < count; begin = end) {
      int number = Words.getInt(request.segment, numbers + 4L * begin);
      end = begin + 1;
      while (end < count && Words.getInt(request.segment, numbers + 4L * end) == number) {
        end++;
      }
      request.namespaceId = namespaces.idOf(number);
      request.body = body + (long) begin * request.keyStride;
      request.count = end - begin;
      if (Registrations.isRegistered(session, request)) {
        readNs += find(request);
      } else {
        for (int i = begin; i < end; i++) {
          writer.add(Status.NAMESPACE_UNKNOWN, TierId.NONE);
        }
      }
    }
    request.body = body;
    request.count = count;
    writer.end(request, readNs);
  }

  /**
   * Adds the result of each key of one namespace.
   *
   * @return how long loading the leading run would take, ns
   */
  private long find(Request request) {
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    int hits = 0;
    int run = 0;
    long readNs = 0;
    beginTimes(namespace);
    boolean mayBeFound = true;
    boolean isFresh = request.has(RequestDescriptor.FLAG_FRESH);
    TraceRecorder recording = admin.recording();
    long[] recorded = recording == null ? NOTHING : new long[request.count + TraceRecorder.HEADER];
    for (int i = 0; i < request.count; i++) {
      int block = directory.findInOrder(request, i);
      if (recording != null) {
        recorded[i + TraceRecorder.HEADER] =
            directory.soughtFingerprint(request.namespaceId, request.group);
      }
      if (block == Directory.NONE) {
        if (isFresh && namespace != null) {
          sources.forgetAbsence(namespace, request.keyBytes, request.group);
        }
        int source =
            namespace == null
                ? Sources.NONE
                : sources.find(namespace, request.keyBytes, request.group, false);
        if (source != Sources.NONE && namespace != null) {
          if (run == i) {
            countFetch(source, namespace, request);
            run++;
          }
          writer.add(Status.OK, idOf(source));
          hits++;
        } else if (mayBeFound && seek(namespace, request)) {
          writer.add(Status.PENDING, idOf(sources.unknown()));
        } else {
          writer.add(Status.MISS, TierId.NONE);
          mayBeFound = false;
        }
      } else {
        ResidentTier tier = tierOf(block);
        if (tier != null) {
          readNs += tier != first && run == i ? readNs(tier, namespace) : 0;
          run += run == i ? 1 : 0;
          writer.add(Status.OK, tier.traits().id());
          hits++;
        } else {
          boolean isFetching = directory.has(Directory.FLAG_FETCHING, block);
          writer.add(Status.PENDING, isFetching ? idOf(directory.source(block)) : TierId.NONE);
        }
      }
    }
    sources.endLookup();
    if (recording != null) {
      recording.record(clock.getAsLong(), namespace == null ? 0 : namespace.blockBytes(), recorded);
    }
    readNs += fetchNs();
    counters.add(Counter.LOOKUP_BLOCKS, request.count);
    counters.add(Counter.LOOKUP_HITS, hits);
    accounts.lookedUp(request.namespaceId, request.count, hits);
    return readNs;
  }

  private void beginTimes(Namespaces.@Nullable Namespace namespace) {
    Arrays.fill(fetches, 0);
    for (ReadTimes one : times) {
      if (one != null && namespace != null) {
        one.begin(namespace);
      }
    }
  }

  /** The block that was sought last would come from a source. */
  private void countFetch(int source, Namespaces.Namespace namespace, Request request) {
    fetches[source]++;
    ReadTimes own = times[source];
    if (own != null) {
      own.addSought(namespace, request.keyBytes, request.group);
    }
  }

  /** How long it would take to fetch the counted blocks, ns. */
  private long fetchNs() {
    long ns = 0;
    for (int source = 0; source < fetches.length; source++) {
      ReadTimes own = times[source];
      if (fetches[source] > 0) {
        ns += own == null ? store.estimatedFetchNs(source, fetches[source]) : own.estimatedNs();
      }
    }
    return ns;
  }

  private TierId idOf(int source) {
    return sources.at(source).traits().id();
  }

  /** The tier that a block would be read from; null when it is in none yet. */
  private @Nullable ResidentTier tierOf(int block) {
    return first.isResident(block) || store.hasArrived(block)
        ? first
        : store.stack().storedIn(block);
  }

  private long readNs(ResidentTier tier, Namespaces.@Nullable Namespace namespace) {
    return namespace == null
        ? 0
        : store.lower().at(tier.number()).estimatedReadNs(namespace.blockBytes());
  }

  private boolean seek(Namespaces.@Nullable Namespace namespace, Request request) {
    return namespace != null
        && sources.unknown() != Sources.NONE
        && sources.at(sources.unknown()).seek(namespace, request.group, request.keyBytes);
  }
}
