package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.policies.EvictionPolicy;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

class RequestAssemblerTest {
  private static final long NONE = EvictionPolicy.NO_PARENT;

  /** What was heard of a request. */
  private record Heard(
      List<Long> keys,
      List<Long> parents,
      int headDepth,
      boolean isTailFirst,
      boolean isFragment,
      long sequence) {}

  private final List<Heard> heard = new ArrayList<>();
  private final RequestAssembler assembler = new RequestAssembler(this::hear);

  private void hear(RequestAssembler request) {
    List<Long> keys = new ArrayList<>();
    List<Long> parents = new ArrayList<>();
    for (int place = 0; place < request.size(); place++) {
      keys.add(request.key(place));
      parents.add(request.parent(place));
    }
    heard.add(
        new Heard(
            keys,
            parents,
            request.headDepth(),
            request.isTailFirst(),
            request.isFragment(),
            request.sequence()));
  }

  /** Touches blocks, each the child of the one before it. */
  private void headFirst(int depth, long parent, long... keys) {
    long before = parent;
    for (int i = 0; i < keys.length; i++) {
      assembler.touch(keys[i], depth + i, before);
      before = keys[i];
    }
  }

  private void tailFirst(int depth, long parent, long... keys) {
    for (int i = keys.length - 1; i >= 0; i--) {
      assembler.touch(keys[i], depth + i, i == 0 ? parent : keys[i - 1]);
    }
  }

  @Test
  void touches_eachTheChildOfTheOneBefore_areARequest() {
    headFirst(0, NONE, 11, 12, 13);
    assertEquals(List.of(), heard, "it could go on");
    headFirst(0, NONE, 21);
    Heard request = heard.getFirst();
    assertEquals(List.of(11L, 12L, 13L), request.keys());
    assertEquals(List.of(NONE, 11L, 12L), request.parents());
    assertEquals(0, request.headDepth());
    assertTrue(!request.isTailFirst() && !request.isFragment());
    assembler.flush();
    assertEquals(List.of(21L), heard.getLast().keys());
    assembler.flush();
    assertEquals(2, heard.size(), "nothing was touched since");
  }

  @Test
  void touches_eachTheParentOfTheOneBefore_areARequestFromItsTail() {
    tailFirst(3, 10, 11, 12, 13);
    tailFirst(0, NONE, 1, 2);
    assembler.flush();
    Heard request = heard.getFirst();
    assertEquals(List.of(11L, 12L, 13L), request.keys());
    assertEquals(List.of(10L, 11L, 12L), request.parents());
    assertEquals(3, request.headDepth());
    assertTrue(request.isTailFirst() && request.isFragment());
    assertEquals(List.of(1L, 2L), heard.getLast().keys());
    assertEquals(0, heard.getLast().headDepth());
  }

  @Test
  void touches_thatTurnBack_areAnotherRequest() {
    headFirst(0, NONE, 1, 2, 3);
    assembler.touch(2, 1, 1);
    assembler.flush();
    assertEquals(
        List.of(List.of(1L, 2L, 3L), List.of(2L)), heard.stream().map(Heard::keys).toList());
    heard.clear();
    tailFirst(0, NONE, 1, 2, 3);
    assembler.touch(2, 1, 1);
    assembler.flush();
    assertEquals(
        List.of(List.of(1L, 2L, 3L), List.of(2L)), heard.stream().map(Heard::keys).toList());
  }

  @Test
  void touches_ofBlocksWithoutParents_areRequestsOfTheirOwn() {
    assembler.touch(5, 0, NONE);
    assembler.touch(NONE, 0, NONE);
    assembler.touch(6, 0, NONE);
    assembler.flush();
    assertEquals(3, heard.size(), "none names the other as its parent");
  }

  @Test
  void touches_moreThanTheBuffer_areAFragmentBehindTheFirst() {
    long[] keys = LongStream.rangeClosed(1, 8193).toArray();
    headFirst(0, NONE, keys);
    assembler.flush();
    assertEquals(List.of(8192, 1), heard.stream().map(each -> each.keys().size()).toList());
    assertEquals(List.of(8192L), heard.getLast().parents());
    assertEquals(8192, heard.getLast().headDepth());
    assertTrue(heard.getLast().isFragment() && !heard.getFirst().isFragment());
    assertTrue(assembler.bytes() > 8 * 8192 && assembler.bytes() < 9 * 8192);
  }

  @Test
  void fragment_isWhatBeginsBehindTheSecondBlock() {
    headFirst(1, 7, 8);
    headFirst(2, 28, 29);
    assembler.flush();
    assertEquals(List.of(false, true), heard.stream().map(Heard::isFragment).toList());
  }

  /** The sequence of the only request that an assembler ever had. */
  private static long sequenceOf(Consumer<RequestAssemblerTest> touches) {
    RequestAssemblerTest alone = new RequestAssemblerTest();
    touches.accept(alone);
    alone.assembler.flush();
    assertEquals(1, alone.heard.size());
    return alone.heard.getFirst().sequence();
  }

  @Test
  void sequence_isNamedByTheSecondBlock() {
    long named = sequenceOf(test -> test.headFirst(0, NONE, 1, 2, 3));
    assertEquals(named, sequenceOf(test -> test.headFirst(0, NONE, 1, 2, 4, 5)));
    assertEquals(named, sequenceOf(test -> test.tailFirst(0, NONE, 1, 2, 9)));
    assertEquals(named, sequenceOf(test -> test.headFirst(1, 1, 2, 3)), "which is the first here");
    assertEquals(named, sequenceOf(test -> test.headFirst(0, NONE, 2)), "there is no other");
    assertNotEquals(named, sequenceOf(test -> test.headFirst(0, NONE, 1, 6, 3)));
    assertNotEquals(named, sequenceOf(test -> test.headFirst(1, 2, 3)));
  }

  @Test
  void sequence_behindWhatManyRequestsShare() {
    int requests = 200;
    for (int i = 0; i < requests; i++) {
      // A system prompt of three blocks, then two questions of each user.
      headFirst(0, NONE, 1, 2, 3, 1000 + i / 2, 5000 + i);
    }
    assembler.flush();
    Set<Long> names = new HashSet<>();
    for (int i = requests / 2; i < requests; i += 2) {
      names.add(heard.get(i).sequence());
      assertEquals(heard.get(i).sequence(), heard.get(i + 1).sequence(), "of one user");
    }
    assertEquals(requests / 4, names.size(), "each user has a sequence");
  }

  @Test
  void sequence_whatOneRequestOfManyShares_isNoSystemPrompt() {
    Set<Long> names = new HashSet<>();
    for (int i = 0; i < 12_000; i++) {
      if (i % 100 == 0) {
        headFirst(0, NONE, 1, 2, 3, 1_000_000 + i);
      } else {
        headFirst(0, NONE, 10 * i + 20, 10 * i + 21);
      }
    }
    assembler.flush();
    for (int i = 0; i < heard.size(); i += 100) {
      names.add(heard.get(i).sequence());
    }
    assertEquals(1, names.size(), "one of a hundred shares it");
  }

  @Test
  void sequence_whatWasSharedLongAgo_isForgotten() {
    for (int i = 0; i < 4000; i++) {
      headFirst(0, NONE, 1, 2, 3, 1_000_000 + i);
    }
    for (int i = 0; i < 80_000; i++) {
      headFirst(0, NONE, 10 * i + 20, 10 * i + 21);
    }
    heard.clear();
    for (int i = 0; i < 2; i++) {
      headFirst(0, NONE, 1, 2, 3, 2_000_000 + i);
      headFirst(0, NONE, 7);
    }
    assembler.flush();
    assertEquals(
        heard.stream()
            .filter(each -> each.keys().size() == 4)
            .map(Heard::sequence)
            .distinct()
            .count(),
        1);
  }
}
