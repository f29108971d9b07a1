package io.kvtier.cli;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.protocol.plugin.PluginException;
import io.kvtier.protocol.plugin.PluginFolder;
import io.kvtier.protocol.plugin.PluginPart;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** The eviction policies of plug-ins, for the simulator. */
final class PolicyPlugins {
  private PolicyPlugins() {}

  /** Loads the policies of a folder, with the checks that the daemon makes. */
  static void load(Path folder) {
    Map<String, EvictionPolicyProvider> policies = new HashMap<>();
    try {
      for (PluginPart<EvictionPolicyProvider> part :
          PluginFolder.open(folder)
              .load(
                  EvictionPolicyProvider.class,
                  EvictionPolicyProvider::name,
                  EvictionPolicies.builtInNames())) {
        policies.put(part.name(), part.provider());
      }
    } catch (PluginException e) {
      throw new Failure(Failure.USAGE, "--plugins: " + e.getMessage());
    }
    EvictionPolicies.plugIn(policies);
  }
}
