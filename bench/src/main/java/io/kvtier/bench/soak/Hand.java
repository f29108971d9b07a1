package io.kvtier.bench.soak;

import java.util.List;

/** What a client does with blocks of one namespace. Statuses are named as in the status table. */
interface Hand extends AutoCloseable {
  /** Statuses of blocks, and in the same order what was read; empty where nothing was. */
  record Read(List<String> statuses, List<byte[]> blocks) {}

  /** Puts blocks with what the daemon's events need of them. */
  List<String> put(Space space, List<byte[]> keys, List<byte[]> blocks, List<byte[]> annotations)
      throws Exception;

  Read get(Space space, List<byte[]> keys) throws Exception;

  List<String> delete(Space space, List<byte[]> keys) throws Exception;

  /** One status. */
  List<String> flush(Space space) throws Exception;

  @Override
  void close();
}
