/** What everything that is kept in RocksDB shares: its native library and its errors in words. */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.rocks;
