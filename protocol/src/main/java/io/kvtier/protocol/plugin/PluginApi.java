package io.kvtier.protocol.plugin;

import java.util.List;

/** The interfaces of plug-ins, against which jars are compiled. */
public final class PluginApi {
  /**
   * The version of these interfaces. It changes when a jar that was compiled before can't be used
   * any more. The manifest of each plug-in has it.
   */
  public static final int VERSION = 1;

  /** The attribute of a jar's manifest that says which version the jar was compiled against. */
  public static final String VERSION_ATTRIBUTE = "Kvtier-Plugin-Api";

  /** The services that a plug-in can provide: names of interfaces. */
  public static final List<String> SERVICES =
      List.of(
          "io.kvtier.policies.EvictionPolicyProvider",
          "io.kvtier.policies.AdmissionPolicyProvider",
          "io.kvtier.tiers.codec.BlockCodecProvider",
          "io.kvtier.tiers.outer.OuterSourceProvider");

  private PluginApi() {}
}
