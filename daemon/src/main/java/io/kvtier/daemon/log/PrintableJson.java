package io.kvtier.daemon.log;

import ch.qos.logback.classic.encoder.JsonEncoder;
import ch.qos.logback.classic.spi.ILoggingEvent;
import io.kvtier.protocol.Printable;
import java.nio.charset.StandardCharsets;

/** One object a line, in which nothing stands that a terminal would obey. */
final class PrintableJson extends JsonEncoder {
  @Override
  public byte[] encode(ILoggingEvent event) {
    String line = new String(super.encode(event), StandardCharsets.UTF_8);
    return Printable.linesOf(line).getBytes(StandardCharsets.UTF_8);
  }
}
