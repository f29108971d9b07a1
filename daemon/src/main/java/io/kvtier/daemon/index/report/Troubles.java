package io.kvtier.daemon.index.report;

import io.kvtier.daemon.index.report.HealthReport.Trouble;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.verbs.Refusals;
import io.kvtier.protocol.Counted;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The words of a {@link HealthReport}: which state of which part is a trouble, its reason and its
 * cure.
 */
final class Troubles {
  private static final String CHECK_STORE =
      "check that the store can be reached, its credentials, and object.* in the configuration";
  private static final String CHECK_DEVICE =
      "look at the device and its file system (dmesg, df, smartctl)";

  private final List<Trouble> all = new ArrayList<>(0);

  List<Trouble> all() {
    return all;
  }

  // ---- puts

  void drain(boolean drains) {
    if (drains) {
      add(
          "puts/drain",
          "the daemon is drained: it refuses new blocks until 'kvtier drain --off'",
          "kvtier drain --off, unless you are going to stop the daemon");
    }
  }

  /**
   * Adds the trouble of puts that were answered BUSY.
   *
   * @param blocks how many blocks, within the last seconds
   */
  void refusedPuts(Refusals.Lack lack, long blocks) {
    if (blocks == 0) {
      return;
    }
    String refused =
        "puts of " + Counted.of(blocks, "block") + " were refused within the last seconds: ";
    switch (lack) {
      case SLOT ->
          add(
              "puts/memory",
              refused + "no slot of memory came free in time",
              "raise host.bytes, or have clients hold less ('kvtier sessions' shows their leases,"
                  + " reservations and pins); where an SSD tier takes blocks too slowly, 'kvtier"
                  + " top' shows its transfers");
      case RECORD ->
          add(
              "puts/index",
              refused + "the index has no record left for another block",
              "raise limits.blocks, and restart the daemon");
      // The operator's limit for one client.
      case SHARE_OF_HOLDS -> {}
      case HOLD ->
          add(
              "puts/holds",
              refused + "all clients together hold as many blocks as they may",
              "have clients release what they hold ('kvtier sessions' shows it), or raise"
                  + " limits.holds");
      case DEVICE ->
          add(
              "puts/gpu",
              refused + "too many blocks are being copied from GPUs",
              "have engines offload fewer blocks at once, or look at the GPUs (nvidia-smi)");
    }
  }

  /**
   * Adds the trouble of accepted blocks that were lost, although no policy dropped them.
   *
   * @param blocks how many, within the last seconds
   */
  void lost(Drops.Reason reason, long blocks) {
    if (blocks == 0) {
      return;
    }
    String lost = Counted.of(blocks, "block") + " lost within the last seconds: ";
    switch (reason) {
      // The policy's choice: a tier that can't be written has a trouble of its own.
      case NO_ROOM -> {}
      case STORE_AWAY -> add("object/away", lost + "the object store did not answer", CHECK_STORE);
      case REFUSED -> add("object/lost", lost + "the object store had refused them", CHECK_STORE);
      case BEING_DELETED ->
          add(
              "object/deletes",
              lost + "objects of the same names were still being deleted",
              "wait for the deletions ('kvtier stats' shows deletions_waiting), or raise the rate"
                  + " of calls that the store allows");
      case UNREADABLE ->
          add("puts/unreadable", lost + "the last copy could not be read", CHECK_DEVICE);
      case DAMAGED ->
          add(
              "puts/damaged",
              lost + "the last copy did not match its checksum",
              "look at the memory and at the device (dmesg, smartctl): bytes have changed there");
    }
  }

  /**
   * Adds the trouble of blocks that were dropped because the bytes of some rank did not come.
   *
   * @param blocks how many within the last seconds
   */
  void incomplete(long blocks) {
    if (blocks > 0) {
      add(
          "puts/incomplete",
          Counted.of(blocks, "block")
              + " dropped within the last seconds: some layers or heads did not come within"
              + " limits.lease",
          "check that all ranks of the engine store blocks (their logs), or raise limits.lease");
    }
  }

  // ---- tiers

  /**
   * Adds the trouble of a tier's ledger.
   *
   * @param cause empty while it can be written
   */
  void ledger(String tier, String cause) {
    if (!cause.isEmpty()) {
      add(
          tier + "/ledger",
          "the next start will not find blocks of new namespaces in memory: " + cause,
          "make "
              + tier
              + ".directory writable: free space, check its permissions and its file system");
    }
  }

  /**
   * Adds the trouble of a tier's device.
   *
   * @param state open, fenced or given_up
   * @param cause why the device is not open; empty when no cause is known
   * @param failure the cause of a failure not long ago; empty when there was none
   */
  void device(String tier, int device, String state, String cause, String failure) {
    String cure = CHECK_DEVICE + "; the daemon uses it again by itself once it works";
    switch (state) {
      case "open" -> {
        if (!failure.isEmpty()) {
          add(tier + "/" + device, "transfers failed within the last seconds: " + failure, cure);
        }
      }
      case "given_up" ->
          add(
              tier + "/" + device,
              "the device was given up, as it failed again and again: blocks leave memory without"
                  + " it, and it is tried again every few seconds"
                  + because(cause),
              cure);
      default ->
          add(
              tier + "/" + device,
              "the device is fenced after errors, and tried again soon" + because(cause),
              cure);
    }
  }

  void keeper(boolean isMissing) {
    if (isMissing) {
      add(
          "host/keep",
          "no process keeps the memory (host.keep): the blocks in it are lost when the daemon ends;"
              + " the log says why",
          "read the daemon's log for the reason, and restart the daemon");
    }
  }

  /**
   * Adds the troubles of the object tier.
   *
   * @param report the fields of the tier's report; empty when there is no object tier
   */
  void object(Map<String, Object> report) {
    way(report, "load", Boolean.FALSE.equals(report.get("takes_loads")));
    way(report, "store", Boolean.FALSE.equals(report.get("takes_stores")));
    way(report, "probe", false);
    String ledger = text(report, "ledger_trouble");
    if (!ledger.isEmpty()) {
      add(
          "object/ledger",
          "the presence ledger can't be used, and the store is asked for each block: " + ledger,
          "make the folder of the object tier's ledger writable: free space, check its"
              + " permissions");
    }
  }

  private void way(Map<String, Object> report, String way, boolean isClosed) {
    String cause = text(report, way + "_trouble");
    if (isClosed || !cause.isEmpty()) {
      add("object/" + way, "the object store does not answer" + because(cause), CHECK_STORE);
    }
  }

  /**
   * Adds the trouble of blocks that the object store refused.
   *
   * @param blocks how many, within the last seconds
   */
  void refusedByStore(long blocks) {
    if (blocks > 0) {
      add(
          "object/refused",
          "the object store refused "
              + Counted.of(blocks, "block")
              + " within the last seconds; the log says why",
          "check the credentials, what they permit (object.* in the configuration), and the"
              + " bucket's quota");
    }
  }

  void gpu(int gpu, String fence) {
    add("gpu/" + gpu, fence, "look at the GPU (nvidia-smi, dmesg), and restart the daemon");
  }

  private void add(String part, String reason, String cure) {
    all.add(new Trouble(part, reason, cure));
  }

  private static String because(String cause) {
    return cause.isEmpty() ? "" : ": " + cause;
  }

  private static String text(Map<String, Object> report, String field) {
    return report.get(field) instanceof String text ? text : "";
  }
}
