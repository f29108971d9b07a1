package io.kvtier.daemon;

import io.kvtier.protocol.linux.SignalActions;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * SIGHUP, by which a service is told to read its configuration again. The JDK's class for signals
 * is one of its unsupported ones, of which the compiler warns; where it is missing, the command
 * {@code kvtier reload} is left.
 */
final class Hangup {
  private static final Logger LOG = LoggerFactory.getLogger(Hangup.class);

  private @Nullable Runnable task;
  private boolean isMissed;

  private Hangup() {}

  /**
   * Hears hang-ups from now on: until then each ends the process, or is ignored where it was
   * started so.
   */
  static Hangup hear() {
    Hangup hangup = new Hangup();
    hangup.install();
    return hangup;
  }

  /**
   * Runs something at each hang-up, on a thread of the JVM's; here and now, too, if there has been
   * one already.
   */
  synchronized void each(Runnable newTask) {
    task = newTask;
    if (isMissed) {
      newTask.run();
    }
  }

  /** Whether there was a hang-up before there was anything to run. */
  synchronized boolean isMissed() {
    return isMissed;
  }

  private synchronized void heard() {
    if (task == null) {
      isMissed = true;
    } else {
      task.run();
    }
  }

  private void install() {
    try {
      // The JVM leaves a signal alone that it was started to ignore.
      if (SignalActions.isIgnored(SignalActions.SIGHUP)) {
        SignalActions.reset(SignalActions.SIGHUP);
      }
      Class<?> signal = Class.forName("sun.misc.Signal");
      Class<?> handler = Class.forName("sun.misc.SignalHandler");
      Object ours =
          Proxy.newProxyInstance(
              handler.getClassLoader(),
              new Class<?>[] {handler},
              (proxy, method, arguments) ->
                  switch (method.getName()) {
                    case "handle" -> {
                      heard();
                      yield null;
                    }
                    case "equals" ->
                        System.identityHashCode(proxy) == System.identityHashCode(arguments[0]);
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> "the handler of SIGHUP";
                  });
      var _ =
          signal
              .getMethod("handle", signal, handler)
              .invoke(null, signal.getConstructor(String.class).newInstance("HUP"), ours);
    } catch (IOException | ReflectiveOperationException | IllegalArgumentException e) {
      Throwable cause = e instanceof InvocationTargetException wrapped ? wrapped.getCause() : e;
      LOG.warn("SIGHUP can't be handled ({}): use kvtier reload", String.valueOf(cause));
    }
  }
}
