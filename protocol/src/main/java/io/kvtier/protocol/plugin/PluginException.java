package io.kvtier.protocol.plugin;

import java.io.Serial;

/** A plug-in can't be loaded. The message names it, and says what is wrong and what to do. */
public final class PluginException extends Exception {
  @Serial private static final long serialVersionUID = 1;

  public PluginException(String message) {
    super(message);
  }

  public PluginException(String message, Throwable cause) {
    super(message, cause);
  }
}
