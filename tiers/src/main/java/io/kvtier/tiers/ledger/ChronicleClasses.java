package io.kvtier.tiers.ledger;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import net.openhft.chronicle.hash.VanillaGlobalMutableState;
import net.openhft.chronicle.values.ValueModel;
import net.openhft.compiler.CompilerUtils;

/**
 * Makes, when this module is built, the class that Chronicle Map would otherwise write and compile
 * at every start: that takes longer than all the rest of a start, and a Java runtime with a
 * compiler. Chronicle looks for the class by its name first.
 */
final class ChronicleClasses {
  private ChronicleClasses() {}

  /**
   * Writes the class.
   *
   * @param arguments the folder of this module's classes
   */
  public static void main(String[] arguments) throws IOException {
    Class<?> made = ValueModel.acquire(VanillaGlobalMutableState.class).nativeClass();
    if (made.getResource(made.getSimpleName() + ".class") != null) {
      return;
    }
    Map<String, byte[]> classes = new HashMap<>();
    CompilerUtils.CACHED_COMPILER.updateFileManagerForClassLoader(
        made.getClassLoader(), files -> classes.putAll(files.getAllBuffers()));
    if (!classes.containsKey(made.getName())) {
      throw new IllegalStateException(
          "Chronicle no longer compiles " + made.getName() + ", but " + classes.keySet());
    }
    for (Map.Entry<String, byte[]> one : classes.entrySet()) {
      Path file = Path.of(arguments[0], one.getKey().replace('.', '/') + ".class");
      Files.createDirectories(Objects.requireNonNull(file.getParent()));
      Files.write(file, one.getValue());
    }
  }
}
