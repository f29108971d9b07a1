package io.kvtier.client.internal.local;

/** Holds that a session granted, which are to be given back. */
interface Grant extends AutoCloseable {
  @Override
  void close();
}
