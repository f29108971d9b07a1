package io.kvtier.daemon.log;

import ch.qos.logback.classic.pattern.ClassicConverter;
import ch.qos.logback.classic.spi.ILoggingEvent;
import io.kvtier.protocol.Printable;

/** A line's text: what peers say stands in it, and must not begin a line of its own. */
public final class PrintableMessage extends ClassicConverter {
  @Override
  public String convert(ILoggingEvent event) {
    return Printable.of(String.valueOf(event.getFormattedMessage()));
  }
}
