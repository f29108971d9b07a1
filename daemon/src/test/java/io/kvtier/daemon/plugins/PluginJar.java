package io.kvtier.daemon.plugins;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;

/** A jar that a test makes of the text of classes. */
final class PluginJar {
  private final Path work;
  private final Map<String, byte[]> entries = new LinkedHashMap<>();
  private String version = "1";

  PluginJar(Path work) {
    this.work = work;
  }

  /** Writes another version of the interfaces into the manifest; empty: none. */
  PluginJar version(String text) {
    version = text;
    return this;
  }

  /** Adds a service file. */
  PluginJar service(String service, String lines) {
    entries.put("META-INF/services/" + service, lines.getBytes(StandardCharsets.UTF_8));
    return this;
  }

  /** Compiles a class and adds it. */
  PluginJar type(String name, String text) throws IOException {
    Path sources = Files.createTempDirectory(work, "sources");
    Path classes = Files.createTempDirectory(work, "classes");
    Path file = Files.writeString(sources.resolve(name + ".java"), text);
    String classPath =
        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path", ""));
    int code =
        ToolProvider.findFirst("javac")
            .orElseThrow()
            .run(
                System.out,
                System.err,
                "-proc:none",
                "-cp",
                classPath,
                "-d",
                classes.toString(),
                file.toString());
    if (code != 0) {
      throw new IllegalStateException(name + " does not compile");
    }
    try (Stream<Path> made = Files.walk(classes)) {
      for (Path each : (Iterable<Path>) made.filter(Files::isRegularFile)::iterator) {
        entries.put(classes.relativize(each).toString(), Files.readAllBytes(each));
      }
    }
    return this;
  }

  /** Leaves a class out. */
  PluginJar without(String name) {
    entries.remove(name);
    return this;
  }

  /** Writes the jar. */
  Path write(Path file) throws IOException {
    Manifest manifest = new Manifest();
    manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
    if (!version.isEmpty()) {
      manifest.getMainAttributes().putValue("Kvtier-Plugin-Api", version);
    }
    try (OutputStream out = Files.newOutputStream(file);
        JarOutputStream jar = new JarOutputStream(out, manifest)) {
      for (Map.Entry<String, byte[]> each : entries.entrySet()) {
        jar.putNextEntry(new JarEntry(each.getKey()));
        jar.write(each.getValue());
        jar.closeEntry();
      }
    }
    return file;
  }
}
