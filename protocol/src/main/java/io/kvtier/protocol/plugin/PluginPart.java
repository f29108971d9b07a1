package io.kvtier.protocol.plugin;

/**
 * One provider that a plug-in brings.
 *
 * @param <T> the interface of the provider
 * @param name the name by which the configuration chooses it
 * @param jar the file name of the jar
 */
public record PluginPart<T>(T provider, String name, String jar) {}
