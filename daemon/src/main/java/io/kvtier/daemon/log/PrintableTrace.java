package io.kvtier.daemon.log;

import ch.qos.logback.classic.pattern.ThrowableProxyConverter;
import ch.qos.logback.classic.spi.ILoggingEvent;
import io.kvtier.protocol.Printable;

/** An exception with its stack, in whose words names of clients may stand. */
public final class PrintableTrace extends ThrowableProxyConverter {
  @Override
  public String convert(ILoggingEvent event) {
    return Printable.linesOf(super.convert(event));
  }
}
