package io.kvtier.policies;

import java.util.Map;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * The providers of one kind of policy, by name: those of this module, and those that plug-ins
 * bring. A plug-in never takes the name of one of this module's.
 */
final class Providers<T> {
  private final String kind;
  private final Map<String, T> builtIn = new TreeMap<>();
  private volatile Map<String, T> plugged = Map.of();

  Providers(String kind, Class<T> service, Function<T, String> nameOf) {
    this.kind = kind;
    for (T provider : ServiceLoader.load(service, service.getClassLoader())) {
      if (builtIn.putIfAbsent(nameOf.apply(provider), provider) != null) {
        throw new IllegalStateException(
            "two " + kind + " policies are named " + nameOf.apply(provider));
      }
    }
  }

  /** Takes the providers of plug-ins, in place of those of an earlier call. */
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
   * A plug-in's provider.
   *
   * @throws IllegalArgumentException when nobody provides the name
   */
  T plugged(Specification asked) {
    T provider = plugged.get(asked.name());
    if (provider == null) {
      throw asked.unknown(kind, names());
    }
    return provider;
  }

  /** A plug-in's provider made nothing, or threw what is no mistake in its options. */
  IllegalArgumentException failure(String name, @Nullable Throwable cause) {
    return new IllegalArgumentException(
        "the plug-in's provider of the "
            + kind
            + " policy '"
            + name
            + "' "
            + (cause == null ? "made none (null)" : "failed: " + cause)
            + "; expected a policy: choose another one, or ask who made the plug-in",
        cause);
  }
}
