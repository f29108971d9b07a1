package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.directory.RunSearch;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Asks the owners of partitions which nodes have blocks. Of a sequence of blocks, a few are asked
 * for in each of at most three rounds ({@link RunSearch}). The nodes that are named are then asked
 * themselves: the directory only has hints. Confined to the first reader.
 */
final class Locator {
  /** The most nodes that are asked for the blocks of a sequence. */
  private static final int CANDIDATES_MAX = 8;

  private final NodeReader reader;
  private final DirectoryClient client;

  Locator(NodeReader reader, DirectoryClient client) {
    this.reader = reader;
    this.client = client;
  }

  /**
   * The nodes that may have some blocks.
   *
   * @param candidates the nodes that owners name for most of the blocks
   * @param nodes the nodes to ask about each block; empty: no node has the block; null: the owner
   *     has not answered
   */
  record Located(List<PeerLink> candidates, List<@Nullable List<PeerLink>> nodes) {}

  /**
   * Asks for the blocks of one sequence.
   *
   * @param hashes of the blocks, in order
   */
  void locateSequence(long[] hashes, Consumer<Located> found, long nowNs) {
    new Search(hashes, new RunSearch(hashes.length), found).begin(nowNs);
  }

  /** Asks for each block by itself. */
  void locateEach(long[] hashes, Consumer<Located> found, long nowNs) {
    new Search(hashes, null, found).begin(nowNs);
  }

  private final class Search {
    private final long[] hashes;
    private final @Nullable RunSearch run;
    private final Consumer<Located> found;

    /** The nodes that owners name for each block; null where none has answered. */
    private final List<@Nullable List<PeerLink>> holders;

    private int[] places = {};
    private int open;

    Search(long[] hashes, @Nullable RunSearch run, Consumer<Located> found) {
      this.hashes = hashes;
      this.run = run;
      this.found = found;
      holders = new ArrayList<>(Collections.nCopies(hashes.length, null));
    }

    void begin(long nowNs) {
      int[] all = new int[hashes.length];
      for (int i = 0; i < all.length; i++) {
        all[i] = i;
      }
      ask(run == null ? all : run.next(), nowNs);
    }

    /** Asks the owners for the blocks at some places. */
    private void ask(int[] next, long nowNs) {
      places = next;
      Map<Long, List<Integer>> byOwner = new LinkedHashMap<>();
      for (int i = 0; i < places.length; i++) {
        long owner = client.directory().owner(hashes[places[i]]);
        byOwner.computeIfAbsent(owner, _ -> new ArrayList<>()).add(i);
      }
      // One more, so that the round does not end before all are asked.
      open = byOwner.size() + 1;
      for (Map.Entry<Long, List<Integer>> each : byOwner.entrySet()) {
        ask(each.getKey(), each.getValue(), nowNs);
      }
      answered();
    }

    private void ask(long owner, List<Integer> numbers, long nowNs) {
      PeerLink link = client.link(owner);
      if (owner == reader.options().incarnation()) {
        for (int number : numbers) {
          long[] nodes = new long[NodeDirectory.HOLDERS_MAX];
          int count = client.directory().find(hashes[places[number]], nodes);
          note(number, nodes, count);
        }
        answered();
      } else if (link == null) {
        answered();
      } else {
        long[] asked = new long[numbers.size()];
        for (int i = 0; i < asked.length; i++) {
          asked[i] = hashes[places[numbers.get(i)]];
        }
        link.request(
            FrameType.LOCATE,
            DirectoryMessages.longs(asked),
            frame -> {
              try {
                take(numbers, frame);
              } finally {
                answered();
              }
            },
            nowNs);
      }
    }

    private void take(List<Integer> numbers, @Nullable Frame frame) throws FrameException {
      if (frame != null && frame.status() == Status.OK) {
        DirectoryMessages.Located located =
            DirectoryMessages.Located.of(frame.body(), numbers.size());
        for (int i = 0; i < numbers.size(); i++) {
          long[] nodes = located.nodes(i);
          note(numbers.get(i), nodes, nodes.length);
        }
      }
    }

    /** Nodes have a block. This node is not asked for blocks, and neither are unknown nodes. */
    private void note(int number, long[] nodes, int count) {
      List<PeerLink> links = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        PeerLink link = client.link(nodes[i]);
        if (link != null && !links.contains(link)) {
          links.add(link);
        }
      }
      holders.set(places[number], links);
      if (run != null) {
        run.answer(number, !links.isEmpty());
      }
    }

    private void answered() {
      if (--open > 0) {
        return;
      }
      int[] next = {};
      if (run != null) {
        run.endRound();
        next = run.next();
      }
      if (next.length > 0) {
        ask(next, reader.nowNs());
      } else {
        int length = run == null ? hashes.length : run.run();
        List<PeerLink> candidates = candidates(length);
        found.accept(new Located(candidates, run == null ? holders : ofRun(length, candidates)));
      }
    }

    /** The nodes to ask about each block of a sequence. */
    private List<@Nullable List<PeerLink>> ofRun(int length, List<PeerLink> candidates) {
      List<@Nullable List<PeerLink>> nodes = new ArrayList<>();
      for (int i = 0; i < hashes.length; i++) {
        nodes.add(i >= length ? List.of() : candidates.isEmpty() ? null : candidates);
      }
      return nodes;
    }

    private List<PeerLink> candidates(int length) {
      Map<PeerLink, Integer> named = new HashMap<>();
      Set<PeerLink> order = new LinkedHashSet<>();
      for (int i = 0; i < length; i++) {
        List<PeerLink> some = holders.get(i);
        for (PeerLink link : some == null ? List.<PeerLink>of() : some) {
          named.merge(link, 1, Integer::sum);
          order.add(link);
        }
      }
      return order.stream()
          .sorted(Comparator.comparing((PeerLink link) -> named.getOrDefault(link, 0)).reversed())
          .limit(CANDIDATES_MAX)
          .toList();
    }
  }
}
