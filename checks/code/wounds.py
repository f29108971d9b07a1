"""Removes each guard: compiles its class without the guard, puts the class first on the class path, and runs the guard's test.

scripts/wounds-check starts it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool

WOUNDS = "io.kvtier.systemtests.WoundsTest"
DEVICE = "io.kvtier.daemon.DeviceRegionEndToEndTest"
INDEX = "daemon/src/main/java/io/kvtier/daemon/index/"
LIMIT_S = 240


@dataclass(frozen=True)
class Guard:
    """A line of code that keeps a promise.

    Attributes:
        says: the message of the guard's test without the line, as a regular expression.
    """

    number: int
    what: str
    source: str
    text: str
    without: str
    test: str
    says: str
    suite: str = WOUNDS

    @property
    def module(self) -> str:
        return "system-tests" if self.suite == WOUNDS else "daemon"


@dataclass(frozen=True)
class Ran:
    """The end of a test: JUnit's word and the message."""

    status: str
    why: str = ""


NEVER_ENDED = Ran("HANGS", "it does not end")


def problem_with(guard: Guard, ran: Ran) -> str | None:
    """The problem with the test's end without the guard; None if the test failed with its message."""
    if ran.status == "SUCCESSFUL":
        return "it passes"
    if ran.status != "FAILED" or not re.search(guard.says, ran.why):
        return f"it did not fail for want of the guard, of which it would say '{guard.says}': {ran.status} {ran.why}"
    return None


GUARDS = [
    Guard(
        1,
        "bytes from SSD are held against their checksum",
        "tiers/src/main/java/io/kvtier/tiers/ssd/StoredBlock.java",
        "&& decode(transfer, header, buffers)\n            && Checksums.of(transfer.bytes()) == transfer.checksum",
        "&& decode(transfer, header, buffers)",
        "wound01_wrongBytesServedAsAHit",
        "wrong bytes",
    ),
    Guard(
        2,
        "a store is acknowledged when its row is written",
        "tiers/src/main/java/io/kvtier/tiers/ledger/RocksLedger.java",
        "database.write(pending.batch(), sync);",
        'if (Boolean.getBoolean("never")) database.write(pending.batch(), sync);',
        "wound02_acceptedAndThenLost",
        "what was flushed is there after a kill",
    ),
    Guard(
        3,
        "the end of a session answers whoever waits",
        "client-java/src/main/java/io/kvtier/client/internal/session/InFlight.java",
        "if (call.state() == Call.WAITING || call.state() == Call.ABANDONED) {",
        "if (call.state() == Call.ABANDONED) {",
        "wound03_hangs",
        "the end of its session answers who waits",
    ),
    Guard(
        4,
        "the end of a session gives back what it holds",
        INDEX + "verbs/Holdings.java",
        "while (session.firstHold != HoldTable.NONE) {",
        'while (Boolean.getBoolean("never") && session.firstHold != HoldTable.NONE) {',
        "wound04_leaksOfTheDead",
        "everything is given back",
    ),
    Guard(
        5,
        "the SSD tier's files have as many bytes as it may take",
        "daemon/src/main/java/io/kvtier/daemon/config/KvtierdConfig.java",
        "return (int) (space.bytes / (writing.engine == SsdEngine.ROCKSDB ? 2 : 1) / space.fileBytes);",
        "return 8 + (int) (space.bytes / (writing.engine == SsdEngine.ROCKSDB ? 2 : 1) / space.fileBytes);",
        "wound05_capsThatAreNotCaps",
        r"\d+ bytes in files",
    ),
    Guard(
        6,
        "a lookup is no use of a block",
        INDEX + "verbs/Lookups.java",
        "          writer.add(Status.OK, tier.traits().id());",
        "          if (tier == first) {\n            first.hit(block);\n          }\n          writer.add(Status.OK, tier.traits().id());",
        "wound06_evictionThatFreesNothingOrEverything",
        "as much as was asked for|block [0-9]+",
    ),
    Guard(
        7,
        "a run ends at the first hole",
        "client-java/src/main/java/io/kvtier/client/Blocks.java",
        "while (run < statuses.length && statuses[run] == (byte) Status.OK.code()) {\n      run++;\n    }\n    return run;",
        "return count(Status.OK);",
        "wound07_partialPrefixes",
        "a run ends at the hole",
    ),
    Guard(
        8,
        "a get of what is under way joins it",
        INDEX + "verbs/Acquires.java",
        "      case STAGING -> {\n",
        '      case STAGING -> {\n        if (!Boolean.getBoolean("never")) return false;\n',
        "wound08_convoys",
        "each block was read once|the others joined",
    ),
    Guard(
        9,
        "a namespace's properties are held against those of its first registration",
        INDEX + "verbs/Registrations.java",
        "if (known != null && difference != null) {",
        'if (Boolean.getBoolean("never") && known != null && difference != null) {',
        "wound09_keyConfusion",
        "other properties under the same name are refused",
    ),
    Guard(
        10,
        "other addresses than loopback need TLS",
        "daemon/src/main/java/io/kvtier/daemon/access/ListenerRules.java",
        "if (Arrays.stream(addresses).allMatch(InetAddress::isLoopbackAddress)) {",
        'if (!Boolean.getBoolean("never")) {',
        "wound10_openDoors",
        "a listener that anybody reaches is refused",
    ),
    Guard(
        11,
        "a GPU is opened when a region is",
        "tiers/src/main/java/io/kvtier/tiers/gpu/GpuTier.java",
        'LOG.info("{}, {} GPUs", driver.version(), driver.devices().size());',
        "driver.devices().forEach(driver::open);",
        "wound11_gpuMemoryTakenFromTheEngine",
        "nothing is taken before an engine asks",
        DEVICE,
    ),
    Guard(
        12,
        "a lookup estimates loads",
        INDEX + "verbs/Lookups.java",
        "? readNs(tier, namespace) : 0",
        "? 0 * readNs(tier, namespace) : 0",
        "wound12_slowTiersSlowerThanRecompute",
        "a load from SSD takes time",
    ),
]


def class_path(guard: Guard) -> list[str]:
    """The class path that Maven ran its suite with."""
    report = ROOT / guard.module / f"target/surefire-reports/TEST-{guard.suite}.xml"
    for one in ElementTree.parse(report).iter("property"):
        if one.get("name") == "surefire.test.class.path":
            return str(one.get("value")).split(":")
    sys.exit(f"kvtier: error: {report} does not tell its class path")


def launcher(guard: Guard) -> list[str]:
    """JUnit's launcher, which surefire brings along by itself, of the engine's version."""
    engine = next(Path(jar) for jar in class_path(guard) if re.search(r"junit-platform-engine-[^/]*\.jar$", jar))
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
        sys.exit(f"kvtier: error: {guard.source} has the guard {text.count(guard.text)} times, once was expected: mend checks/code/wounds.py\n{guard.text}")
    shutil.rmtree(folder, ignore_errors=True)
    mutant = folder / "source" / source.name
    mutant.parent.mkdir(parents=True)
    mutant.write_text(text.replace(guard.text, guard.without))
    classes = folder / "classes"
    compiled = subprocess.run(
        [java / "bin/javac", "--release", "25", "-proc:none", "-parameters", "-nowarn", "-d", classes, "-cp", ":".join(class_path(guard)), mutant],
        capture_output=True,
        text=True,
        check=False,
    )
    if compiled.returncode:
        sys.exit(f"kvtier: error: {guard.source} does not compile without its guard:\n{compiled.stdout}{compiled.stderr}")
    return classes


def run(guard: Guard, java: Path, classes: Path | None) -> Ran:
    """Runs the guard's test with these classes before all others."""
    path = ":".join([*([str(classes)] if classes else []), *class_path(guard)])
    flags = re.search(r"<test.jvm.flags>(.*?)</test.jvm.flags>", (ROOT / "pom.xml").read_text())
    assert flags
    # The daemon that the test starts gets its class path from the property.
    command = [java / "bin/java", *flags[1].split(), f"-Dsurefire.test.class.path={path}", "-cp", ":".join([path, *launcher(guard)])]
    try:
        ran = subprocess.run(
            [*command, ROOT / "checks/code/RunTest.java", f"{guard.suite}#{guard.test}"],
            cwd=ROOT / guard.module,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return NEVER_ENDED
    result = re.search(r"^RESULT (\w+) ?(.*)$", ran.stdout, re.MULTILINE)
    if result is None:
        sys.exit(f"kvtier: error: {guard.test} did not run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return Ran(result[1], result[2])


def wound(text: str) -> int:
    """A wound's number, as an argument."""
    numbers = [guard.number for guard in GUARDS]
    if text not in map(str, numbers):
        raise argparse.ArgumentTypeError(f"there is no wound '{text}': expected {numbers[0]} to {numbers[-1]}")
    return int(text)


def main() -> int:
    parser = Arguments(prog="scripts/wounds-check")
    parser.add_argument("java_home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("numbers", nargs="*", type=wound, help="of wounds; all without any")
    asked = parser.parse_args()
    folder = ROOT / "target/wounds"
    os.environ["ROCKSDB_MUSL_LIBC"] = os.environ.get("ROCKSDB_MUSL_LIBC", "false")
    problems = []
    print("| wound | guard taken out | what its test says |\n| ---: | --- | --- |")
    for guard in GUARDS:
        if asked.numbers and guard.number not in asked.numbers:
            continue
        # Run as without the guard: what fails then as well says nothing about it.
        whole = run(guard, asked.java_home, None)
        if whole.status != "SUCCESSFUL":
            sys.exit(f"kvtier: error: {guard.test} does not pass with its guard: {whole.status} {whole.why}")
        ran = run(guard, asked.java_home, without(guard, asked.java_home, folder))
        problem = problem_with(guard, ran)
        if problem:
            problems.append(f"{guard.number}: {problem}")
        shown = ran.why[:160] or "nothing: it passes"
        print(f"| {guard.number} | {guard.what} | {f'**{shown}**' if problem else shown} |", flush=True)
    if problems:
        print("kvtier: error: not shown to have a test:\n  " + "\n  ".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    run_tool(main)
