package io.kvtier.daemon.index.session;

import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;

/**
 * The word of a session's memory in which a copy's layers are counted, for a client that uses the
 * first before the last has come. A GPU's stream may wait for a value of it with nobody else awake,
 * so it reaches its end with the operation's, whatever came of that, and before the answer: the
 * client gives the word to another request when it is answered.
 *
 * <p>It counts on from what it holds: a stream that has not come to its wait yet finds it satisfied
 * also when the word is another request's. And it is only ever changed from the value that was
 * written last: a client that has given the daemon up writes the end itself, and what the daemon
 * would write later, which is less, must not take that back. Confined to the index.
 */
public final class ProgressWord {
  private int number;
  private int layers;
  private int from;
  private int shown;
  private boolean isHeldBack;

  /**
   * Begins to count.
   *
   * @param word its number, from 1; 0: nobody wants to know
   */
  public void begin(Session session, int word, int ofLayers) {
    number = word;
    layers = ofLayers;
    isHeldBack = false;
    if (word != 0) {
      from = Words.getIntAcquire(session.segment(), offset(word));
      shown = from;
    }
  }

  /** Whether somebody waits for single layers, and can be told of them. */
  public boolean isWanted() {
    return number != 0 && !isHeldBack;
  }

  /** No layer is told of any more before the end: blocks that were counted on come another way. */
  public void holdBack() {
    isHeldBack = true;
  }

  /** So many leading layers are done. */
  public void show(Session session, int done) {
    int value = from + Math.min(done, layers);
    if (number == 0 || session.ended || value == shown) {
      return;
    }
    // The copies' completion was seen by their lane before it came here: no byte of these layers
    // is under way when the word says so.
    if (Words.compareAndSetInt(session.segment(), offset(number), shown, value)) {
      shown = value;
    } else {
      number = 0;
    }
  }

  /** The operation is about to be answered. */
  public void end(Session session) {
    show(session, layers);
    number = 0;
  }

  /** The same for a request that is refused before it becomes an operation. */
  static void refuse(Session session, Request request) {
    boolean hasWord =
        (request.verb == Verb.ONBOARD || request.verb == Verb.OFFLOAD)
            && request.progress > 0
            && request.progress <= SessionRegionDescriptor.PROGRESS_WORDS;
    if (hasWord && !request.isOperation) {
      ProgressWord word = new ProgressWord();
      // Who waits for layers says how many there are: of which region, nobody may know here.
      word.begin(session, request.progress, Math.max(0, request.endLayer - request.firstLayer));
      word.end(session);
    }
  }

  private static long offset(int word) {
    return SessionRegionDescriptor.PROGRESS_OFFSET + 4L * (word - 1);
  }
}
