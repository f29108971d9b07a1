package io.kvtier.daemon;

import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.plugins.Plugins;
import io.kvtier.protocol.Status;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.List;

/** The plug-ins of the daemon, for operators. */
final class PluginReport {
  private PluginReport() {}

  /** The command {@code plugins}. */
  static OperatorAnswer run(Plugins plugins, List<String> words) {
    if (words.size() != 1) {
      throw new IllegalArgumentException("'plugins' takes no further words");
    }
    return new OperatorAnswer(Status.OK, json(plugins).encode());
  }

  /** The folder, and the parts that its jars bring. */
  static JsonObject json(Plugins plugins) {
    JsonArray parts = new JsonArray();
    for (Plugins.Part part : plugins.parts()) {
      parts.add(
          new JsonObject()
              .put("kind", part.kind())
              .put("name", part.name())
              .put("jar", part.jar()));
    }
    return new JsonObject()
        .put("directory", plugins.folder() == null ? "" : plugins.folder().toString())
        .put("parts", parts);
  }
}
