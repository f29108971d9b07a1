package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.index.core.OperatorCommands;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.move.Ingestion;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionTable;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.trace.TraceRecorder;
import io.kvtier.protocol.Counted;
import io.kvtier.protocol.Status;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The commands of operators to a running daemon: one line of words, answered in words. */
public final class Admin {
  private static final String USAGE =
      "expected 'policy TIER NAME', where NAME is an eviction policy, 'admission TIER NAME', where"
          + " NAME is an admission policy, 'trace record REQUESTS FILE', 'trace stop',"
          + " 'trace status', 'object TASK', 'session end ID', "
          + Upkeep.USAGE;

  /** The commands that name a block, which can only be one of the operator's tenant. */
  private static final Set<String> OF_A_BLOCK = Set.of("inspect", "pin", "unpin");

  private static final Pattern FINGERPRINT = Pattern.compile("[0-9a-f]{32}/?");

  private final BlockStore store;
  private final Namespaces namespaces;
  private final Upkeep upkeep;
  private final SessionTable sessions;
  private final Map<String, OperatorCommands> others = new TreeMap<>();
  private @Nullable TraceRecorder trace;

  /** Commands over the tiers. */
  public Admin(BlockStore store, Namespaces namespaces, Upkeep upkeep, SessionTable sessions) {
    this.sessions = sessions;
    this.store = store;
    this.namespaces = namespaces;
    this.upkeep = upkeep;
  }

  /** Registers another part of the daemon for the commands that begin with a word. */
  public void extend(String word, OperatorCommands commands) {
    others.put(word, commands);
  }

  /**
   * Carries out a command. An operator of a tenant may use only commands that name something of
   * that tenant. All other commands concern the daemon, which tenants share.
   *
   * @param tenant of the operator
   */
  public OperatorAnswer run(String command, int tenant) {
    String[] words = command.strip().split("\\s+", -1);
    boolean isRemoval =
        words.length >= 3 && words[0].equals("object") && words[1].equals("remove-namespace");
    if (tenant != Grant.NO_TENANT && !isRemoval && !OF_A_BLOCK.contains(words[0])) {
      return new OperatorAnswer(
          Status.DENIED,
          "'"
              + command.strip()
              + "' is for operators of no tenant: of this tenant's own there are inspect, pin, unpin"
              + " and object remove-namespace NAME");
    }
    if ((words.length == 2 || words.length == 3) && words[0].equals("policy")) {
      return setPolicy(words[1].toLowerCase(Locale.ROOT), words.length == 2 ? "" : words[2]);
    }
    if (words.length == 3 && words[0].equals("admission")) {
      return setAdmission(words[1].toLowerCase(Locale.ROOT), words[2]);
    }
    if (words.length >= 4 && words[0].equals("trace") && words[1].equals("record")) {
      return record(words[2], command.strip().split("\\s+", 4)[3]);
    }
    if (words.length == 2 && words[0].equals("trace") && words[1].equals("stop")) {
      return stopRecording();
    }
    if (words.length == 2 && words[0].equals("trace") && words[1].equals("status")) {
      return trace == null ? noRecording() : standing(trace);
    }
    if (words.length == 3 && words[0].equals("session") && words[1].equals("end")) {
      return endSession(words[2]);
    }
    if (isRemoval) {
      return removeNamespace(tenant, command.strip().split("\\s+", 3)[2]);
    }
    if (words.length >= 2 && words[0].equals("object")) {
      return object(List.of(words).subList(1, words.length));
    }
    OperatorCommands other = others.get(words[0]);
    OperatorAnswer answer =
        other == null ? upkeep.run(List.of(words), tenant) : operate(other, List.of(words));
    return answer == null ? OperatorAnswer.wrong("'" + command.strip() + "': " + usage()) : answer;
  }

  private String usage() {
    return others.isEmpty() ? USAGE : USAGE + ", or " + String.join(", ", others.keySet());
  }

  private OperatorAnswer object(List<String> words) {
    return operate(store.objects()::operate, words);
  }

  /** Ends a session as the daemon ends those of clients that send garbage. */
  private OperatorAnswer endSession(String number) {
    long id;
    try {
      id = Long.parseLong(number);
    } catch (NumberFormatException e) {
      id = -1;
    }
    if (id < 1) {
      return OperatorAnswer.wrong(
          "'" + number + "' is no session's number: kvtier sessions shows them in column ID");
    }
    for (int place = 0; place < sessions.end(); place++) {
      Session session = sessions.at(place);
      if (session != null && session.id() == id && !session.ended) {
        sessions.cutOff(session, Status.SESSION_ENDED, "an operator ended it");
        return OperatorAnswer.done(
            "session "
                + id
                + " of process "
                + session.peerProcess()
                + " has ended: its leases, reservations and pins with it");
      }
    }
    return new OperatorAnswer(
        Status.MISS, "there is no session " + id + ": kvtier sessions shows those that there are");
  }

  private static OperatorAnswer operate(OperatorCommands commands, List<String> words) {
    try {
      return commands.run(words);
    } catch (IllegalArgumentException e) {
      return OperatorAnswer.wrong(String.valueOf(e.getMessage()));
    }
  }

  /**
   * Removes the objects of a namespace. Its name must be known to this daemon; its fingerprint need
   * not be.
   */
  private OperatorAnswer removeNamespace(int tenant, String which) {
    if (!store.objects().isConfigured()) {
      return object(List.of("remove-namespace", which));
    }
    Namespaces.Namespace named = namespaces.byOperator(tenant, which);
    if (tenant != Grant.NO_TENANT) {
      return removeOwn(named, which);
    }
    boolean isFingerprint = FINGERPRINT.matcher(which).matches();
    if (named == null && !isFingerprint) {
      return new OperatorAnswer(
          Status.MISS,
          "this daemon knows no namespace '"
              + which
              + "': kvtier tiers shows those that it knows (a tenant's is named TENANT/NAME), kvtier"
              + " object du the fingerprints of"
              + " all that are in the store");
    }
    return object(
        List.of(
            "remove-namespace",
            named == null || isFingerprint ? which : named.fingerprint().inHex()));
  }

  /**
   * Removes the objects of a tenant's own namespace, by its name only: the daemon may not know
   * which tenant a fingerprint belongs to.
   */
  private OperatorAnswer removeOwn(Namespaces.@Nullable Namespace named, String which) {
    if (named != null) {
      return object(List.of("remove-namespace", named.fingerprint().inHex()));
    }
    return FINGERPRINT.matcher(which).matches()
        ? new OperatorAnswer(
            Status.DENIED,
            "'" + which + "' is a fingerprint: an operator of a tenant gives a namespace's name")
        : new OperatorAnswer(
            Status.MISS,
            "this tenant has no namespace '"
                + which
                + "' that the daemon knows: kvtier namespaces shows those that it has");
  }

  /** The recording under way, if there is one. */
  @Nullable TraceRecorder recording() {
    TraceRecorder begun = trace;
    return begun == null || begun.isEnded() ? null : begun;
  }

  /** The daemon stops: a recording is brought to its end. */
  public void stop() {
    if (trace != null) {
      trace.close();
    }
  }

  /** Begins a recording; its status says whether the file could be opened. */
  private OperatorAnswer record(String requests, String file) {
    TraceRecorder before = trace;
    if (before != null) {
      switch (before.phase()) {
        case OPENING, RECORDING -> {
          return new OperatorAnswer(
              Status.BUSY, "a recording to '" + before.file() + "' is under way: stop it first");
        }
        case ENDING -> {
          return new OperatorAnswer(
              Status.BUSY, "'" + before.file() + "' is still being written: ask again later");
        }
        case WHOLE, FAILED -> {}
      }
    }
    try {
      long requestsMax = Long.parseLong(requests);
      if (requestsMax < 1) {
        return OperatorAnswer.wrong("a recording of " + requests + " requests: " + USAGE);
      }
      TraceRecorder begun = new TraceRecorder(Path.of(file), requestsMax);
      trace = begun;
      return standing(begun);
    } catch (NumberFormatException e) {
      return OperatorAnswer.wrong("'" + requests + "' is no number: " + USAGE);
    } catch (InvalidPathException e) {
      return new OperatorAnswer(
          Status.IO_ERROR, "the daemon can't write '" + file + "': " + e.getMessage());
    }
  }

  /**
   * Ends the recording, and forgets it when its file is whole. Until then the answer is PENDING,
   * and the operator asks again.
   */
  private OperatorAnswer stopRecording() {
    TraceRecorder before = trace;
    if (before == null) {
      return noRecording();
    }
    before.end();
    OperatorAnswer answer = standing(before);
    if (answer.status() != Status.PENDING) {
      trace = null;
    }
    return answer;
  }

  private static OperatorAnswer noRecording() {
    return new OperatorAnswer(Status.MISS, "no recording is under way");
  }

  private static OperatorAnswer standing(TraceRecorder recording) {
    String file = "'" + recording.file() + "'";
    return switch (recording.phase()) {
      case OPENING -> new OperatorAnswer(Status.PENDING, file + " is being opened");
      case RECORDING ->
          OperatorAnswer.done(
              "recording lookups to " + file + ", at most " + recording.requestsMax() + " of them");
      case ENDING -> new OperatorAnswer(Status.PENDING, file + " is being written to its end");
      case WHOLE -> OperatorAnswer.done(came(recording));
      case FAILED -> failed(recording);
    };
  }

  private static String came(TraceRecorder recording) {
    TraceRecorder.Summary summary = recording.summary();
    return Counted.of(summary.requests(), "lookup")
        + " of "
        + Counted.of(summary.blocks(), "block")
        + " in '"
        + recording.file()
        + "', "
        + summary.lost()
        + " not taken";
  }

  private static OperatorAnswer failed(TraceRecorder recording) {
    Exception why = recording.failure();
    if (why instanceof FileAlreadyExistsException) {
      return new OperatorAnswer(
          Status.DENIED, "'" + recording.file() + "' is there already: choose another file");
    }
    return new OperatorAnswer(
        Status.IO_ERROR,
        "the daemon can't write '"
            + recording.file()
            + "': "
            + reason(why)
            + (recording.summary().requests() == 0 ? "" : "; " + came(recording)));
  }

  private static String reason(@Nullable Exception e) {
    return switch (e) {
      case null -> "a defect";
      case NoSuchFileException _ -> "its folder does not exist";
      case AccessDeniedException _ -> "its user may not";
      default -> String.valueOf(e.getMessage());
    };
  }

  private OperatorAnswer setAdmission(String tier, String specification) {
    ResidentTier resident = store.stack().named(tier);
    Ingestion ingestion =
        tier.equals("object")
            ? store.uploads().ingestion()
            : resident == null || resident == store.first()
                ? null
                : store.evictions().ingestion(resident);
    if (ingestion == null) {
      String lower =
          store.stack().lower().stream()
              .map(one -> one.traits().name())
              .collect(Collectors.joining(", "));
      return OperatorAnswer.wrong("there is no tier '" + tier + "': " + lower + " or object");
    }
    String before = ingestion.admissionName();
    try {
      ingestion.swapAdmission(specification);
    } catch (IllegalArgumentException e) {
      return OperatorAnswer.wrong(String.valueOf(e.getMessage()));
    }
    return OperatorAnswer.done(tier + " admission: " + before + " -> " + ingestion.admissionName());
  }

  private OperatorAnswer setPolicy(String tier, String specification) {
    ResidentTier line = store.stack().named(tier);
    if (line == null) {
      return OperatorAnswer.wrong(
          tier.equals("object")
              ? "the object tier has no policy to choose: beyond object.bytes, what was not used"
                  + " for longest goes"
              : "there is no tier '"
                  + tier
                  + "': "
                  + store.stack().all().stream()
                      .map(one -> one.traits().name())
                      .collect(Collectors.joining(" or ")));
    }
    if (!line.isConfigured()) {
      return new OperatorAnswer(
          Status.MISS, "there is no " + line.traits().title() + " tier: " + tier + ".bytes is 0");
    }
    if (specification.isEmpty()) {
      return OperatorAnswer.wrong("say which policy tier '" + tier + "' shall have");
    }
    String before = line.policyName();
    try {
      line.swapPolicy(specification);
    } catch (IllegalArgumentException e) {
      return OperatorAnswer.wrong(String.valueOf(e.getMessage()));
    }
    return OperatorAnswer.done(
        tier
            + ": "
            + before
            + " -> "
            + line.policyName()
            + ", "
            + Counted.of(line.resident(), "block")
            + " taken over");
  }
}
