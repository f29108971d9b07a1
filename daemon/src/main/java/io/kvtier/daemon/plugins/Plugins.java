package io.kvtier.daemon.plugins;

import io.kvtier.policies.AdmissionPolicies;
import io.kvtier.policies.AdmissionPolicyProvider;
import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.protocol.plugin.PluginException;
import io.kvtier.protocol.plugin.PluginFolder;
import io.kvtier.protocol.plugin.PluginPart;
import io.kvtier.tiers.codec.BlockCodecProvider;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.outer.OuterSourceProvider;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The plug-ins of one folder. A process loads plug-ins once. Policies and codecs come from the
 * first folder that could be loaded, until the process ends.
 */
public final class Plugins {
  /** No plug-ins. */
  public static final Plugins NONE = new Plugins(null, List.of(), Map.of());

  private static @Nullable Plugins inUse;

  /**
   * A part that a plug-in brings, for people.
   *
   * @param kind such as "eviction policy"
   * @param name the name by which the configuration chooses the part
   * @param jar the file name of the jar
   */
  public record Part(String kind, String name, String jar) {
    @Override
    public String toString() {
      return kind + " '" + name + "' (" + jar + ")";
    }
  }

  private final @Nullable Path folder;
  private final List<Part> parts;
  private final Map<String, OuterSourceProvider> sources;

  private Plugins(
      @Nullable Path folder, List<Part> parts, Map<String, OuterSourceProvider> sources) {
    this.folder = folder;
    this.parts = List.copyOf(parts);
    this.sources = Map.copyOf(sources);
  }

  /**
   * Loads the plug-ins of a folder. If the process uses the plug-ins of another folder, these are
   * only checked.
   *
   * @throws PluginException naming what can't be loaded, and what to do
   */
  public static synchronized Plugins of(Path folder) throws PluginException {
    Plugins before = inUse;
    Path absolute = folder.toAbsolutePath().normalize();
    if (before != null && absolute.equals(before.folder)) {
      return before;
    }
    PluginFolder jars = PluginFolder.open(absolute);
    List<PluginPart<EvictionPolicyProvider>> eviction =
        jars.load(
            EvictionPolicyProvider.class,
            EvictionPolicyProvider::name,
            EvictionPolicies.builtInNames());
    List<PluginPart<AdmissionPolicyProvider>> admission =
        jars.load(
            AdmissionPolicyProvider.class,
            AdmissionPolicyProvider::name,
            AdmissionPolicies.builtInNames());
    List<PluginPart<BlockCodecProvider>> codecs =
        jars.load(BlockCodecProvider.class, BlockCodecProvider::name, BlockCodecs.builtInNames());
    List<PluginPart<OuterSourceProvider>> sources =
        jars.load(OuterSourceProvider.class, OuterSourceProvider::name, Set.of());
    List<Part> parts = new ArrayList<>();
    add("eviction policy", eviction, parts);
    add("admission policy", admission, parts);
    add("codec", codecs, parts);
    add("source", sources, parts);
    Plugins loaded = new Plugins(absolute, parts, byName(sources));
    if (before == null) {
      loaded.use(byName(eviction), byName(admission), byName(codecs));
    }
    return loaded;
  }

  private void use(
      Map<String, EvictionPolicyProvider> eviction,
      Map<String, AdmissionPolicyProvider> admission,
      Map<String, BlockCodecProvider> codecs)
      throws PluginException {
    try {
      BlockCodecs.plugIn(codecs);
    } catch (IllegalArgumentException e) {
      throw new PluginException(String.valueOf(e.getMessage()), e);
    }
    EvictionPolicies.plugIn(eviction);
    AdmissionPolicies.plugIn(admission);
    inUse = this;
  }

  /** Forgets the loaded plug-ins; for tests. */
  static synchronized void forget() {
    EvictionPolicies.plugIn(Map.of());
    AdmissionPolicies.plugIn(Map.of());
    BlockCodecs.plugIn(Map.of());
    inUse = null;
  }

  private static void add(String kind, List<? extends PluginPart<?>> found, List<Part> to) {
    found.forEach(part -> to.add(new Part(kind, part.name(), part.jar())));
  }

  private static <T> Map<String, T> byName(List<PluginPart<T>> parts) {
    Map<String, T> byName = new LinkedHashMap<>();
    parts.forEach(part -> byName.put(part.name(), part.provider()));
    return byName;
  }

  /** All parts of the plug-ins, ordered by kind. */
  public List<Part> parts() {
    return parts;
  }

  /** The folder; null for no plug-ins. */
  public @Nullable Path folder() {
    return folder;
  }

  /** The provider of a source; null if no plug-in has one with that name. */
  public @Nullable OuterSourceProvider source(String name) {
    return sources.get(name);
  }

  /** The names of the sources, sorted. */
  public Set<String> sourceNames() {
    return new TreeSet<>(sources.keySet());
  }

  /** The folder and all parts, in one line for people. */
  public String describe() {
    if (folder == null) {
      return "none: plugins.directory is empty";
    }
    return parts.isEmpty()
        ? "none in '" + folder + "'"
        : "of '"
            + folder
            + "': "
            + parts.stream().map(Part::toString).collect(Collectors.joining(", "));
  }
}
