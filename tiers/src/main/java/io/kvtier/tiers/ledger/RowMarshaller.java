package io.kvtier.tiers.ledger;

import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.core.util.ReadResolvable;
import net.openhft.chronicle.hash.serialization.SizedReader;
import net.openhft.chronicle.hash.serialization.SizedWriter;
import org.jspecify.annotations.Nullable;

/** Rows as values of a Chronicle map. Its name stands in the map's file. */
final class RowMarshaller
    implements SizedReader<LedgerRow>, SizedWriter<LedgerRow>, ReadResolvable<RowMarshaller> {
  static final RowMarshaller INSTANCE = new RowMarshaller();

  @Override
  public long size(LedgerRow row) {
    return LedgerEntryDescriptor.ROW_BYTES;
  }

  @Override
  public void write(Bytes<?> out, long size, LedgerRow row) {
    out.write(row.bytes);
  }

  @Override
  public LedgerRow read(Bytes<?> in, long size, @Nullable LedgerRow using) {
    LedgerRow row = using == null ? new LedgerRow() : using;
    in.read(row.bytes);
    return row;
  }

  @Override
  public RowMarshaller readResolve() {
    return INSTANCE;
  }
}
