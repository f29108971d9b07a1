package io.kvtier.tiers.transfer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.Test;

/** Transfers of several lanes, each on the threads of its lane. */
class LanePipelinesTest {
  @Test
  void offer_eachTransferRunsInItsLane_onThreadsThatBeganAsTold() throws InterruptedException {
    ConcurrentHashMap<Integer, String> ranOn = new ConcurrentHashMap<>();
    List<String> began = java.util.Collections.synchronizedList(new ArrayList<>());
    List<ThreadedPipeline> lanes = new ArrayList<>();
    for (String name : List.of("lane-a", "lane-b")) {
      lanes.add(
          new ThreadedPipeline(
              new ThreadedPipeline.Workers(
                  name, 1, () -> began.add(Thread.currentThread().getName())),
              8,
              transfer -> ranOn.put(transfer.poolIndex, Thread.currentThread().getName()),
              null,
              () -> {},
              broken -> {
                throw new AssertionError(broken);
              }));
    }
    try (LanePipelines all = new LanePipelines(lanes)) {
      for (int i = 0; i < 8; i++) {
        Transfer transfer = new Transfer(i);
        transfer.lane = i % 2;
        assertTrue(all.offer(transfer));
      }
      assertEquals(8, all.inFlight());
      List<Transfer> finished = new ArrayList<>();
      while (finished.size() < 8) {
        int ignored = all.collect(finished::add);
        Thread.sleep(1);
      }
      assertEquals(0, all.inFlight());
      assertFalse(all.hasFinished());
    }
    for (int i = 0; i < 8; i++) {
      assertEquals(i % 2 == 0 ? "lane-a-0" : "lane-b-0", ranOn.get(i));
    }
    assertEquals(List.of("lane-a-0", "lane-b-0"), began.stream().sorted().toList());
  }
}
