package io.kvtier.daemon.session;

import io.kvtier.protocol.linux.UnixSocket;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;

/**
 * Connections that are over, and whose clients have not read what they were sent. The descriptors
 * in it are in flight until they do, or go, and the kernel allows only so many of the daemon's
 * user: so each of its own users may leave but a few.
 */
final class UnreadAnswers {
  /** The most of one user that are over and unread. */
  static final int OF_A_USER_MAX = 32;

  private record Left(UnixSocket socket, int user) {}

  private final Deque<Left> left = new ArrayDeque<>();
  private final Map<Integer, Integer> byUser = new HashMap<>();

  /** Keeps an ended connection until it is read. */
  void add(UnixSocket ended, int user) {
    left.add(new Left(ended, user));
    byUser.merge(user, 1, Integer::sum);
  }

  /** Whether a user has left too many. */
  boolean isAtLimit(int user) {
    return byUser.getOrDefault(user, 0) >= OF_A_USER_MAX;
  }

  /** Closes those that were read. */
  void look() {
    left.removeIf(one -> {
      if (one.socket.isUnread()) {
        return false;
      }
      one.socket.close();
      byUser.computeIfPresent(one.user, (user, count) -> count == 1 ? null : count - 1);
      return true;
    });
  }

  /** Closes all. */
  void close() {
    left.forEach(one -> one.socket.close());
  }
}
