package io.kvtier.client;

/** What a session granted and wants back. */
sealed interface Grant extends AutoCloseable permits Leases, Reservations {
  @Override
  void close();
}
