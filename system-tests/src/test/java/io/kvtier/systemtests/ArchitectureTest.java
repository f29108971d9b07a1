package io.kvtier.systemtests;

import static com.tngtech.archunit.base.DescribedPredicate.describe;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.Dependency;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.library.dependencies.SliceAssignment;
import com.tngtech.archunit.library.dependencies.SliceIdentifier;
import java.util.ArrayDeque;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The arrows between the modules, which point one way only. */
final class ArchitectureTest {
  private static final String OURS = "io.kvtier..";
  private static final String INDEX = "io.kvtier.daemon.index";
  private static final int INDEX_CLASSES_MAX = 25;
  private static final int INDEX_PAIRS_MAX = 3;

  private static final String CLIENT = "io.kvtier.client";
  private static final String CLIENT_INTERNAL = CLIENT + ".internal";
  private static final int CLIENT_CIRCLE_MAX = 3;

  /**
   * The classes of the client's API that open clients. They stand above the internal packages, and
   * the other classes of the API below.
   */
  private static final Set<String> CLIENT_ENTRIES =
      Set.of(CLIENT + ".CacheClient", CLIENT + ".KvtierClient", CLIENT + ".RemoteClient");

  /** The words of host memory and SSD in names of constants and classes. */
  private static final Pattern TIER = Pattern.compile("HOST|SSD|Host[A-Z]|Ssd[A-Z]");

  /** Where names of tiers are defined for those outside: events, and what is timed. */
  private static final Set<String> NAMES_OF_TIERS =
      Set.of(
          INDEX + ".core.BlockEvents",
          INDEX + ".core.Latencies",
          INDEX + ".report.EventRecordDescriptor");

  private static final JavaClasses CLASSES =
      new ClassFileImporter()
          .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
          .importPackages("io.kvtier");

  /** Without this, a module missing from the class path would pass every rule below. */
  @Test
  void everyModuleIsSeen() {
    Set<String> modules = new TreeSet<>();
    for (JavaClass type : CLASSES) {
      modules.add(type.getPackageName().split("\\.", -1)[2]);
    }
    assertEquals(
        Set.of(
            "bench",
            "cli",
            "client",
            "daemon",
            "layout",
            "policies",
            "protocol",
            "reference",
            "tiers"),
        modules);
  }

  @Test
  void layoutUsesNothingOfOurs() {
    usesOfOursOnly("io.kvtier.layout..", in("io.kvtier.layout.."));
  }

  @Test
  void protocolUsesLayout() {
    usesOfOursOnly("io.kvtier.protocol..", in("io.kvtier.protocol..").or(in("io.kvtier.layout..")));
  }

  @Test
  void policiesUseNothingOfOurs() {
    usesOfOursOnly("io.kvtier.policies..", in("io.kvtier.policies.."));
  }

  @Test
  void tiersUseLayoutNativeCallsAndStatus() {
    DescribedPredicate<JavaClass> status =
        describe(
            "Status",
            type -> {
              String name = type.getName();
              return name.equals("io.kvtier.protocol.Status")
                  || name.startsWith("io.kvtier.protocol.Status$");
            });
    usesOfOursOnly(
        "io.kvtier.tiers..",
        in("io.kvtier.tiers..")
            .or(in("io.kvtier.layout.."))
            .or(in("io.kvtier.protocol.linux.."))
            .or(status));
  }

  @Test
  void daemonUsesTiersPoliciesLayoutAndProtocol() {
    usesOfOursOnly(
        "io.kvtier.daemon..",
        in("io.kvtier.daemon..")
            .or(in("io.kvtier.tiers.."))
            .or(in("io.kvtier.policies.."))
            .or(in("io.kvtier.layout.."))
            .or(in("io.kvtier.protocol..")));
  }

  @Test
  void clientUsesProtocolAndLayout() {
    usesOfOursOnly(
        "io.kvtier.client..",
        in("io.kvtier.client..").or(in("io.kvtier.layout..")).or(in("io.kvtier.protocol..")));
  }

  /** The internal packages of the client, each with those that it may use. */
  @ParameterizedTest
  @CsvSource({"shared, ''", "session, shared", "local, session shared", "remote, shared"})
  void internalPackagesOfTheClientUseThoseBelow(String from, String below) {
    DescribedPredicate<JavaClass> allowed = in(CLIENT_INTERNAL + "." + from).or(in(CLIENT));
    for (String one : below.split(" ", -1)) {
      allowed = one.isEmpty() ? allowed : allowed.or(in(CLIENT_INTERNAL + "." + one));
    }
    noClasses()
        .that()
        .resideInAPackage(CLIENT_INTERNAL + "." + from)
        .should()
        .dependOnClassesThat(
            in(CLIENT + "..").and(DescribedPredicate.not(allowed).or(clientEntry())))
        .check(CLASSES);
  }

  @Test
  void onlyTheEntriesOfTheClientUseItsInternalPackages() {
    noClasses()
        .that(DescribedPredicate.not(in(CLIENT_INTERNAL + "..").or(clientEntry())))
        .should()
        .dependOnClassesThat(in(CLIENT_INTERNAL + ".."))
        .check(CLASSES);
  }

  /** Nested classes count as their owners. */
  @Test
  void classesOfTheClientFormSmallCircles() {
    Set<Set<String>> circles = circles(CLIENT);
    assertTrue(
        circles.stream().allMatch(circle -> circle.size() <= CLIENT_CIRCLE_MAX), circles::toString);
  }

  private static DescribedPredicate<JavaClass> clientEntry() {
    return describe("an entry of the client", type -> CLIENT_ENTRIES.contains(outermost(type)));
  }

  @Test
  void cliUsesClientProtocolAndPolicies() {
    usesOfOursOnly(
        "io.kvtier.cli..",
        in("io.kvtier.cli..")
            .or(in("io.kvtier.client.."))
            .or(in("io.kvtier.protocol.."))
            .or(in("io.kvtier.policies..")));
  }

  /** The packages of the index, each with those that it may use. */
  @ParameterizedTest
  @CsvSource({
    "core, ''",
    "space, core",
    "lane, core",
    "source, core",
    "session, space core",
    "transfer, lane source space core",
    "move, transfer lane source space core",
    "device, session move space core",
    "verbs, device session move transfer lane source space core",
    "report, verbs device session move transfer lane source space core"
  })
  void packagesOfTheIndexUseThoseBelow(String from, String below) {
    DescribedPredicate<JavaClass> allowed = in(INDEX + "." + from);
    for (String one : below.split(" ", -1)) {
      allowed = one.isEmpty() ? allowed : allowed.or(in(INDEX + "." + one));
    }
    noClasses()
        .that()
        .resideInAPackage(INDEX + "." + from)
        .should()
        .dependOnClassesThat(in(INDEX + "..").and(DescribedPredicate.not(allowed)))
        .check(CLASSES);
  }

  /** A tier is a row of {@code KnownTiers}: nothing else in the index knows which there are. */
  @Test
  void onlyKnownTiersNamesATier() {
    Set<String> named = new TreeSet<>();
    for (JavaClass type : indexClasses()) {
      if (outermost(type).endsWith(".KnownTiers") || NAMES_OF_TIERS.contains(outermost(type))) {
        continue;
      }
      type.getFieldAccessesFromSelf().stream()
          .filter(access -> TIER.matcher(access.getTarget().getName()).find())
          .forEach(access -> named.add(access.getDescription()));
      if (TIER.matcher(type.getSimpleName()).find()) {
        named.add(type.getName());
      }
    }
    assertEquals(Set.of(), named);
  }

  @Test
  void packagesOfTheIndexAreSmall() {
    Map<String, Set<String>> packages = new TreeMap<>();
    for (JavaClass type : indexClasses()) {
      packages.computeIfAbsent(type.getPackageName(), _ -> new TreeSet<>()).add(outermost(type));
    }
    packages.forEach((name, types) ->
        assertTrue(
            types.size() <= INDEX_CLASSES_MAX,
            () -> name + " has " + types.size() + " classes: " + types));
  }

  /** Two classes that own each other may form a circle; nested classes count as their owners. */
  @Test
  void classesOfTheIndexFormPairsAtMost() {
    Set<Set<String>> circles = circles(INDEX);
    assertTrue(circles.stream().allMatch(circle -> circle.size() == 2), circles::toString);
    assertTrue(circles.size() <= INDEX_PAIRS_MAX, circles::toString);
  }

  /** The sets of classes below a package that all reach one another. */
  private static Set<Set<String>> circles(String root) {
    Map<String, Set<String>> uses = new TreeMap<>();
    for (JavaClass type : classes(root)) {
      Set<String> used = uses.computeIfAbsent(outermost(type), _ -> new TreeSet<>());
      for (Dependency each : type.getDirectDependenciesFromSelf()) {
        JavaClass target = each.getTargetClass().getBaseComponentType();
        if (in(root + "..").test(target)) {
          used.add(outermost(target));
        }
      }
    }
    Set<Set<String>> circles = new LinkedHashSet<>();
    for (String one : uses.keySet()) {
      Set<String> circle = new TreeSet<>(reached(one, uses));
      circle.removeIf(other -> !reached(other, uses).contains(one));
      if (circle.size() > 1) {
        circles.add(circle);
      }
    }
    return circles;
  }

  private static List<JavaClass> indexClasses() {
    return classes(INDEX);
  }

  private static List<JavaClass> classes(String root) {
    return CLASSES.stream()
        .filter(in(root + ".."))
        .filter(type -> !type.getSimpleName().equals("package-info"))
        .toList();
  }

  /** The top-level class of a class. */
  private static String outermost(JavaClass type) {
    String name = type.getName();
    int nested = name.indexOf('$');
    return nested < 0 ? name : name.substring(0, nested);
  }

  /** What a class uses, directly or by others. */
  private static Set<String> reached(String from, Map<String, Set<String>> uses) {
    Set<String> reached = new TreeSet<>();
    ArrayDeque<String> open = new ArrayDeque<>(uses.getOrDefault(from, Set.of()));
    while (!open.isEmpty()) {
      String next = open.remove();
      if (reached.add(next)) {
        open.addAll(uses.getOrDefault(next, Set.of()));
      }
    }
    return reached;
  }

  @ParameterizedTest
  @ValueSource(strings = {"bench", "reference"})
  void nothingUsesATool(String module) {
    noClasses()
        .that()
        .resideOutsideOfPackage("io.kvtier." + module + "..")
        .should()
        .dependOnClassesThat()
        .resideInAPackage("io.kvtier." + module + "..")
        .allowEmptyShould(true)
        .check(CLASSES);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "layout",
        "protocol",
        "policies",
        "tiers",
        "daemon",
        "client",
        "cli",
        "bench",
        "reference"
      })
  void packagesOfAModuleFormNoCycle(String module) {
    slices()
        .assignedFrom(new PackagesOf("io.kvtier." + module))
        .should()
        .beFreeOfCycles()
        .allowEmptyShould(true)
        .check(CLASSES);
  }

  private static DescribedPredicate<JavaClass> in(String packages) {
    return resideInAPackage(packages);
  }

  private static void usesOfOursOnly(String from, DescribedPredicate<JavaClass> allowed) {
    noClasses()
        .that()
        .resideInAPackage(from)
        .should()
        .dependOnClassesThat(in(OURS).and(DescribedPredicate.not(allowed)))
        .allowEmptyShould(true)
        .check(CLASSES);
  }

  /**
   * One slice for each package of a module. The entries of the client are a slice of their own:
   * {@link #onlyTheEntriesOfTheClientUseItsInternalPackages} holds the others.
   */
  private record PackagesOf(String root) implements SliceAssignment {
    @Override
    public String getDescription() {
      return "packages of " + root;
    }

    @Override
    public SliceIdentifier getIdentifierOf(JavaClass type) {
      if (CLIENT_ENTRIES.contains(outermost(type))) {
        return root.equals(CLIENT) ? SliceIdentifier.of("entries") : SliceIdentifier.ignore();
      }
      String name = type.getPackageName();
      return name.equals(root) || name.startsWith(root + ".")
          ? SliceIdentifier.of(name)
          : SliceIdentifier.ignore();
    }
  }
}
