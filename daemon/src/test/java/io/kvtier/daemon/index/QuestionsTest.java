package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.daemon.node.SimulatedNetwork;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.Messages;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.api.Test;

/** A node asks a daemon which blocks it has. */
class QuestionsTest extends ServedContract {
  /** How many of the largest questions may wait. */
  private static final int WAITING_MAX = 4;

  private static final int ASKED = 20;

  @Override
  Sides open(SimulatedNetwork.Acceptor acceptor) {
    return simulated(SimulatedNetwork.withoutFaults(System::nanoTime), acceptor);
  }

  private void ask(long id) {
    ask(id, Messages.KEYS_MAX);
  }

  private void ask(long id, int keys) {
    ByteBuffer body = ByteBuffer.allocate(32 + 8 * keys).order(ByteOrder.LITTLE_ENDIAN);
    body.putLong(1).putLong(2).putInt(0).putInt(8).putInt(keys).putInt(0);
    sender.open().send(frame(FrameType.ASK, id).with(body.clear()));
  }

  private Status answered(long id) {
    return answer(id).status();
  }

  @Test
  void questionsAboutTooManyBlocks_areBusy_untilEarlierOnesAreAnswered() {
    greet();
    for (long id = 2; id < 2 + ASKED; id++) {
      ask(id);
    }
    isIndexIdle = true;
    // The answers to the questions that must not wait come while the index does nothing.
    for (long id = 2 + WAITING_MAX; id < 2 + ASKED; id++) {
      assertEquals(Status.BUSY, answered(id));
    }
    isIndexIdle = false;
    for (long id = 2; id < 2 + WAITING_MAX; id++) {
      assertEquals(Status.OK, answered(id));
    }
    ask(100);
    assertEquals(Status.OK, answered(100));
  }

  @Test
  void questionWithMoreKeysThanAreLeft_isBusy() {
    greet();
    ask(2, 1);
    for (long id = 3; id < 3 + WAITING_MAX; id++) {
      ask(id);
    }
    isIndexIdle = true;
    assertEquals(Status.BUSY, answered(2 + WAITING_MAX));
    isIndexIdle = false;
    for (long id = 2; id < 2 + WAITING_MAX; id++) {
      assertEquals(Status.OK, answered(id));
    }
  }
}
