package io.kvtier.protocol.plugin;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;
import java.util.function.Function;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.Manifest;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A folder of jars, with one class loader for all of them: jars can use each other's classes. A
 * class that the program itself has is always the program's.
 *
 * <p>Jars of libraries can stand in the folder, too. A jar is a plug-in if it provides one of
 * {@link PluginApi#SERVICES}. Other files in the folder are ignored.
 */
public final class PluginFolder {
  private static final int JARS_MAX = 256;
  private static final String SERVICES = "META-INF/services/";
  private static final String OURS = SERVICES + "io.kvtier.";
  private static final Pattern NAME = Pattern.compile("[a-z][a-z0-9_-]{0,63}");
  private static final Pattern COMMENT = Pattern.compile("#.*");

  private final Path folder;
  private final List<Path> jars;
  private final URLClassLoader loader;

  /** The jars by the names of the provider classes that they list. */
  private final Map<String, Path> jarOfClass = new HashMap<>();

  private PluginFolder(Path folder, List<Path> jars) throws PluginException, IOException {
    this.folder = folder;
    this.jars = jars;
    URL[] urls = new URL[jars.size()];
    for (int i = 0; i < urls.length; i++) {
      Path jar = jars.get(i);
      inspect(jar);
      urls[i] = jar.toUri().toURL();
    }
    loader = new URLClassLoader("kvtier-plug-ins", urls, PluginFolder.class.getClassLoader());
  }

  /**
   * Opens a folder. No code of the jars runs yet.
   *
   * @throws PluginException when the folder or a jar can't be used, or others could have written it
   */
  public static PluginFolder open(Path folder) throws PluginException {
    try {
      if (!Files.isDirectory(folder)) {
        throw new PluginException(
            "'"
                + folder
                + (Files.exists(folder) ? "' is no folder" : "' does not exist")
                + "; expected a folder of jars: make it, or leave the key empty for no plug-ins");
      }
      Path real = folder.toRealPath();
      requireSafe(real);
      return new PluginFolder(folder, jars(real));
    } catch (UnsupportedOperationException e) {
      throw new PluginException(
          "'"
              + folder
              + "' is on a file system that can't say who may write there; expected one with owners"
              + " and modes: move the folder",
          e);
    } catch (IOException e) {
      String why = e instanceof NoSuchFileException ? e + ": a link that leads nowhere?" : "" + e;
      throw new PluginException(
          "'" + folder + "' can't be read: " + why + "; expected a folder that this user can read",
          e);
    }
  }

  private static List<Path> jars(Path folder) throws PluginException, IOException {
    List<Path> jars = new ArrayList<>();
    try (Stream<Path> files = Files.list(folder)) {
      for (Path file : (Iterable<Path>) files.sorted()::iterator) {
        if (file.getFileName().toString().endsWith(".jar")) {
          Path jar = file.toRealPath();
          requireSafe(jar);
          jars.add(jar);
        }
      }
    }
    if (jars.size() > JARS_MAX) {
      throw new PluginException(
          "'"
              + folder
              + "' has "
              + jars.size()
              + " jars; expected at most "
              + JARS_MAX
              + ": is it the right folder?");
    }
    return List.copyOf(jars);
  }

  private static void requireSafe(Path real) throws PluginException, IOException {
    String problem = SafePath.problem(real);
    if (problem != null) {
      throw new PluginException(problem);
    }
  }

  /** Reads the services and the manifest of a jar. */
  private void inspect(Path path) throws PluginException {
    try (JarFile jar = new JarFile(path.toFile())) {
      boolean isPlugin = false;
      for (Enumeration<JarEntry> entries = jar.entries(); entries.hasMoreElements(); ) {
        JarEntry entry = entries.nextElement();
        if (!entry.isDirectory() && entry.getName().startsWith(OURS)) {
          isPlugin = true;
          inspectService(path, jar, entry);
        }
      }
      if (isPlugin) {
        requireVersion(path, jar.getManifest());
      }
    } catch (IOException | IllegalArgumentException e) {
      throw new PluginException(
          "'"
              + path
              + "' is no whole jar ("
              + e.getMessage()
              + "); expected a jar file: copy it again, or remove it",
          e);
    }
  }

  private void inspectService(Path path, JarFile jar, JarEntry entry)
      throws PluginException, IOException {
    String service = entry.getName().substring(SERVICES.length());
    if (!PluginApi.SERVICES.contains(service)) {
      throw new PluginException(
          "'"
              + path
              + "' provides '"
              + service
              + "', which this version does not have; expected "
              + String.join(", ", PluginApi.SERVICES)
              + ": correct the name of the file below META-INF/services");
    }
    String lines = new String(jar.getInputStream(entry).readAllBytes(), StandardCharsets.UTF_8);
    lines
        .lines()
        .map(line -> COMMENT.matcher(line).replaceFirst("").strip())
        .filter(line -> !line.isEmpty())
        .forEach(line -> jarOfClass.putIfAbsent(line, path));
  }

  private static void requireVersion(Path path, @Nullable Manifest manifest)
      throws PluginException {
    String version =
        manifest == null
            ? null
            : manifest.getMainAttributes().getValue(PluginApi.VERSION_ATTRIBUTE);
    String expected = String.valueOf(PluginApi.VERSION);
    if (version == null) {
      throw new PluginException(
          "the manifest of '"
              + path
              + "' does not say for which version of the plug-in interfaces the jar was compiled;"
              + " expected '"
              + PluginApi.VERSION_ATTRIBUTE
              + ": "
              + expected
              + "': compile the jar against this version, and add the line");
    }
    if (!version.strip().equals(expected)) {
      throw new PluginException(
          "'"
              + path
              + "' was compiled for version "
              + version.strip()
              + " of the plug-in interfaces; expected "
              + expected
              + ": compile it against this version, or get a release of it that was");
    }
  }

  /** The folder as it was named. */
  public Path folder() {
    return folder;
  }

  /** The file names of the jars, sorted. */
  public List<String> jars() {
    return jars.stream().map(PluginFolder::fileName).toList();
  }

  /**
   * Makes all providers of a service that the jars bring, in the order of the jars.
   *
   * @param nameOf asks a provider for its name
   * @param builtIn the names that the program itself has
   * @throws PluginException when a provider can't be made, or has a name that is taken or can't be
   *     one
   */
  public <T> List<PluginPart<T>> load(
      Class<T> service, Function<T, String> nameOf, Iterable<String> builtIn)
      throws PluginException {
    Map<String, PluginPart<T>> parts = new LinkedHashMap<>();
    Iterator<ServiceLoader.Provider<T>> providers =
        ServiceLoader.load(service, loader).stream().iterator();
    while (true) {
      PluginPart<T> part;
      try {
        if (!providers.hasNext()) {
          return List.copyOf(parts.values());
        }
        ServiceLoader.Provider<T> next = providers.next();
        if (!loader.equals(next.type().getClassLoader())) {
          continue;
        }
        part = part(next.get(), nameOf);
      } catch (ServiceConfigurationError | LinkageError e) {
        throw failure(e);
      }
      requireName(part, builtIn);
      PluginPart<T> other = parts.putIfAbsent(part.name(), part);
      if (other != null) {
        throw new PluginException(
            words(part)
                + " has the name of "
                + words(other)
                + "; expected each name once: remove one of the two jars, or rename its provider");
      }
    }
  }

  private <T> PluginPart<T> part(T provider, Function<T, String> nameOf) throws PluginException {
    String className = provider.getClass().getName();
    String jar = jarOf(className);
    String name;
    try {
      name = nameOf.apply(provider);
    } catch (RuntimeException | LinkageError e) {
      throw new PluginException(
          className
              + " of '"
              + jar
              + "' does not tell its name: "
              + e
              + "; expected a name: ask the author of the jar",
          e);
    }
    return new PluginPart<>(provider, String.valueOf(name), jar);
  }

  private static <T> void requireName(PluginPart<T> part, Iterable<String> builtIn)
      throws PluginException {
    if (!NAME.matcher(part.name()).matches()) {
      throw new PluginException(
          words(part)
              + " can't be chosen by that name; expected a lower-case letter, then letters, digits,"
              + " '-' and '_': rename the provider");
    }
    for (String name : builtIn) {
      if (name.equals(part.name())) {
        throw new PluginException(
            words(part)
                + " has the name of a built-in one; expected another name: rename the provider, or"
                + " remove the jar");
      }
    }
  }

  private static String words(PluginPart<?> part) {
    return part.provider().getClass().getName()
        + " of '"
        + part.jar()
        + "', named '"
        + part.name()
        + "',";
  }

  /** Says why a provider can't be loaded or made. */
  private PluginException failure(Throwable e) {
    String message = String.valueOf(e.getMessage());
    String jar =
        jarOfClass.keySet().stream()
            .filter(message::contains)
            .findFirst()
            .map(this::jarOf)
            .orElse("");
    Throwable cause = e.getCause();
    boolean isOther = e instanceof LinkageError || cause instanceof LinkageError;
    return new PluginException(
        "a plug-in"
            + (jar.isEmpty() ? " in '" + folder + "'" : ", '" + jar + "',")
            + " can't be loaded: "
            + message
            + (cause == null ? "" : ": " + cause)
            + (isOther
                ? "; expected a jar that was compiled against this version and this Java: compile"
                    + " it again, and put the libraries that it uses beside it"
                : "; expected a public class with a public constructor without parameters that"
                    + " throws nothing: correct it, or remove the jar"),
        e);
  }

  private String jarOf(String className) {
    Path jar = jarOfClass.get(className);
    return jar == null ? folder.toString() : fileName(jar);
  }

  private static String fileName(Path jar) {
    return String.valueOf(jar.getFileName());
  }
}
