package io.kvtier.tiers.object;

import io.kvtier.tiers.transfer.TroubleLog;
import org.slf4j.Logger;

/** Tells operators when one direction, to a store or from it, fails and works again. */
final class ObjectLaneLog {
  /**
   * The sentences for one direction.
   *
   * @param fails with places for the store and the cause
   * @param works with a place for the store
   * @param refused says that the store refuses a block
   */
  record Words(String fails, String works, String refused) {}

  private final Logger log;
  private final String store;
  private final TroubleLog troubles;
  private final Words words;
  private volatile String trouble = "";

  ObjectLaneLog(Logger log, String store, TroubleLog troubles, Words words) {
    this.log = log;
    this.store = store;
    this.troubles = troubles;
    this.words = words;
  }

  /** Why the breaker is open; empty while it is closed. Any thread may ask. */
  String trouble() {
    return trouble;
  }

  /** A failure of the store has opened the breaker, or keeps it open. */
  void isDown(String cause, boolean isNew) {
    trouble = cause;
    if (isNew) {
      log.warn(words.fails, store, cause);
    }
  }

  /** The breaker is closed again. */
  void isUp() {
    trouble = "";
    log.info(words.works, store);
  }

  /** The store refuses a block. */
  void refuses(String why) {
    troubles.tell(words.refused, why);
  }
}
