"""What scripts/wounds-check does with each guard: its class is compiled without it, and laid before all others on the class path."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WOUNDS = "io.kvtier.bench.WoundsTest"
DEVICE = "io.kvtier.daemon.DeviceRegionEndToEndTest"
INDEX = "daemon/src/main/java/io/kvtier/daemon/index/"
LIMIT_S = 240


@dataclass(frozen=True)
class Guard:
    """A line that keeps a promise."""

    number: int
    what: str
    source: str
    text: str
    without: str
    test: str
    suite: str = WOUNDS


GUARDS = [
    Guard(
        1,
        "bytes from SSD are held against their checksum",
        "tiers/src/main/java/io/kvtier/tiers/ssd/StoredBlock.java",
        "&& decode(transfer, header)\n            && Checksums.of(transfer.bytes()) == transfer.checksum",
        "&& decode(transfer, header)",
        "wound01_wrongBytesServedAsAHit",
    ),
    Guard(
        2,
        "a store is acknowledged when its row is written",
        "tiers/src/main/java/io/kvtier/tiers/ledger/RocksLedger.java",
        "database.write(pending.batch(), sync);",
        'if (Boolean.getBoolean("never")) database.write(pending.batch(), sync);',
        "wound02_acceptedAndThenLost",
    ),
    Guard(
        3,
        "the end of a session answers whoever waits",
        "client-java/src/main/java/io/kvtier/client/Session.java",
        "if (call.state() == Call.WAITING || call.state() == Call.ABANDONED) {",
        "if (call.state() == Call.ABANDONED) {",
        "wound03_hangs",
    ),
    Guard(
        4,
        "the end of a session gives back what it holds",
        INDEX + "Index.java",
        "while (session.firstHold != HoldTable.NONE) {",
        'while (Boolean.getBoolean("never") && session.firstHold != HoldTable.NONE) {',
        "wound04_leaksOfTheDead",
    ),
    Guard(
        5,
        "the SSD tier's files have as many bytes as it may take",
        "daemon/src/main/java/io/kvtier/daemon/config/KvtierdConfig.java",
        "return (int) (bytes / (engine == SsdEngine.ROCKSDB ? 2 : 1) / fileBytes);",
        "return 8 + (int) (bytes / (engine == SsdEngine.ROCKSDB ? 2 : 1) / fileBytes);",
        "wound05_capsThatAreNotCaps",
    ),
    Guard(
        6,
        "a lookup is no use of a block",
        INDEX + "Index.java",
        "store.hasArrived(block)) {\n        writer.add(Status.OK, TierId.HOST);",
        "store.hasArrived(block)) {\n        store.host().hit(block);\n        writer.add(Status.OK, TierId.HOST);",
        "wound06_evictionThatFreesNothingOrEverything",
    ),
    Guard(
        7,
        "a run ends at the first hole",
        "client-java/src/main/java/io/kvtier/client/Blocks.java",
        "while (run < statuses.length && statuses[run] == (byte) Status.OK.code()) {\n      run++;\n    }\n    return run;",
        "return count(Status.OK);",
        "wound07_partialPrefixes",
    ),
    Guard(
        8,
        "a get of what is under way joins it",
        INDEX + "Index.java",
        "      case STAGING -> {\n",
        '      case STAGING -> {\n        if (!Boolean.getBoolean("never")) return false;\n',
        "wound08_convoys",
    ),
    Guard(
        9,
        "a namespace's properties are held against those of its first registration",
        INDEX + "Index.java",
        "if (difference != null) {",
        'if (Boolean.getBoolean("never") && difference != null) {',
        "wound09_keyConfusion",
    ),
    Guard(
        10,
        "other addresses than loopback need TLS",
        "daemon/src/main/java/io/kvtier/daemon/access/ListenerRules.java",
        "if (isLoopback(section, host)) {",
        'if (!Boolean.getBoolean("never")) {',
        "wound10_openDoors",
    ),
    Guard(
        11,
        "a GPU is opened when a region is",
        "tiers/src/main/java/io/kvtier/tiers/gpu/GpuTier.java",
        'LOG.info("{}, {} GPUs", driver.version(), driver.devices().size());',
        "driver.devices().forEach(driver::open);",
        "wound11_gpuMemoryTakenFromTheEngine",
        DEVICE,
    ),
    Guard(
        12,
        "a lookup estimates loads",
        INDEX + "Index.java",
        "store.estimatedSsdReadNs(onSsd * namespace.blockBytes())",
        "0L * onSsd",
        "wound12_slowTiersSlowerThanRecompute",
    ),
]


def class_path(suite: str) -> list[str]:
    """The class path that Maven ran the suite with."""
    module = "bench" if suite == WOUNDS else "daemon"
    report = ROOT / module / f"target/surefire-reports/TEST-{suite}.xml"
    for one in ElementTree.parse(report).iter("property"):
        if one.get("name") == "surefire.test.class.path":
            return str(one.get("value")).split(":")
    sys.exit(f"kvtier: error: {report} does not tell its class path")


def launcher() -> list[str]:
    """JUnit's launcher, which surefire brings along by itself, of the engine's version."""
    engine = next(Path(jar) for jar in class_path(WOUNDS) if re.search(r"junit-platform-engine-[^/]*\.jar$", jar))
    version = engine.parent.name
    jar = engine.parents[2] / "junit-platform-launcher" / version / f"junit-platform-launcher-{version}.jar"
    if not jar.exists():
        sys.exit(f"kvtier: error: no {jar}: surefire fetches it when it runs a test")
    return [str(jar)]


def without(guard: Guard, java: Path, folder: Path) -> Path:
    """The class compiled without the guard."""
    source = ROOT / guard.source
    text = source.read_text()
    if text.count(guard.text) != 1:
        sys.exit(f"kvtier: error: {guard.source} has the guard {text.count(guard.text)} times, once was expected: mend scripts/wounds_check.py\n{guard.text}")
    shutil.rmtree(folder, ignore_errors=True)
    mutant = folder / "source" / source.name
    mutant.parent.mkdir(parents=True)
    mutant.write_text(text.replace(guard.text, guard.without))
    classes = folder / "classes"
    compiled = subprocess.run(
        [java / "bin/javac", "--release", "25", "-proc:none", "-parameters", "-nowarn", "-d", classes, "-cp", ":".join(class_path(guard.suite)), mutant],
        capture_output=True,
        text=True,
        check=False,
    )
    if compiled.returncode:
        sys.exit(f"kvtier: error: {guard.source} does not compile without its guard:\n{compiled.stdout}{compiled.stderr}")
    return classes


def run(guard: Guard, java: Path, classes: Path) -> str:
    path = ":".join([str(classes), *class_path(guard.suite)])
    flags = re.search(r"<test.jvm.flags>(.*?)</test.jvm.flags>", (ROOT / "pom.xml").read_text())
    assert flags
    # The daemon that the test starts gets its class path from the property.
    command = [java / "bin/java", *flags[1].split(), f"-Dsurefire.test.class.path={path}", "-cp", ":".join([path, *launcher()])]
    try:
        ran = subprocess.run(
            [*command, ROOT / "scripts/RunTest.java", f"{guard.suite}#{guard.test}"],
            cwd=ROOT / "bench",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "it does not end"
    result = re.search(r"^RESULT (\w+) ?(.*)$", ran.stdout, re.MULTILINE)
    if result is None:
        sys.exit(f"kvtier: error: {guard.test} did not run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return "" if result[1] == "SUCCESSFUL" else result[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/wounds-check")
    parser.add_argument("java_home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("numbers", nargs="*", type=int, help="of wounds; all without any")
    asked = parser.parse_args()
    folder = ROOT / "target/wounds"
    os.environ["ROCKSDB_MUSL_LIBC"] = os.environ.get("ROCKSDB_MUSL_LIBC", "false")
    passed = []
    print("| wound | guard taken out | what its test says |\n| ---: | --- | --- |")
    for guard in GUARDS:
        if asked.numbers and guard.number not in asked.numbers:
            continue
        why = run(guard, asked.java_home, without(guard, asked.java_home, folder))
        if not why:
            passed.append(guard.number)
        print(f"| {guard.number} | {guard.what} | {why[:160] or '**nothing: it passes**'} |", flush=True)
    if passed:
        print(f"kvtier: error: the tests of these wounds pass without their guard: {passed}", file=sys.stderr)
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
