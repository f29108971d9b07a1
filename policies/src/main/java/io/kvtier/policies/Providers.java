package io.kvtier.policies;

import java.util.Map;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * The providers of one kind of policy, by name: the built-in ones, and those of plug-ins. A plug-in
 * never replaces a built-in policy.
 *
 * @param <T> the providers
 * @param <P> the policies
 */
final class Providers<T, P> {
  private final String kind;
  private final BiFunction<T, PolicySetup, P> maker;
  private final Map<String, T> builtIn = new TreeMap<>();
  private volatile Map<String, T> plugged = Map.of();

  Providers(
      String kind,
      Class<T> service,
      Function<T, String> nameOf,
      BiFunction<T, PolicySetup, P> maker) {
    this.kind = kind;
    this.maker = maker;
    for (T provider : ServiceLoader.load(service, service.getClassLoader())) {
      if (builtIn.putIfAbsent(nameOf.apply(provider), provider) != null) {
        throw new IllegalStateException(
            "two " + kind + " policies are named " + nameOf.apply(provider));
      }
    }
  }

  /** Replaces the providers of plug-ins. */
  void plugIn(Map<String, T> providers) {
    plugged = Map.copyOf(providers);
  }

  Set<String> builtInNames() {
    return builtIn.keySet();
  }

  /** All names, sorted. */
  Set<String> names() {
    Set<String> names = new TreeSet<>(builtIn.keySet());
    names.addAll(plugged.keySet());
    return names;
  }

  @Nullable T builtIn(String name) {
    return builtIn.get(name);
  }

  /**
   * Makes a policy of a plug-in.
   *
   * @throws IllegalArgumentException when there is no provider of that name, an option is wrong, or
   *     the provider fails
   */
  P plugged(Specification asked, PolicySetup setup) {
    T provider = plugged.get(asked.name());
    if (provider == null) {
      throw asked.unknown(kind, names());
    }
    P policy;
    try {
      policy = maker.apply(provider, setup);
    } catch (IllegalArgumentException e) {
      throw e;
    } catch (RuntimeException | LinkageError e) {
      throw failure(asked.name(), e);
    }
    if (policy == null) {
      throw failure(asked.name(), null);
    }
    return policy;
  }

  private IllegalArgumentException failure(String name, @Nullable Throwable cause) {
    return new IllegalArgumentException(
        "the plug-in's provider of the "
            + kind
            + " policy '"
            + name
            + "' "
            + (cause == null ? "made none (null)" : "failed: " + cause)
            + "; expected a policy: choose another one, or ask the author of the plug-in",
        cause);
  }
}
