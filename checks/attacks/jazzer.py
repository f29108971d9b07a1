"""Fuzzes a decoder of the daemon in one process, guided by coverage (Jazzer).

    python -m checks.attacks.jazzer config|ring|grpc SECONDS

The first inputs are in daemon/src/test/resources/fuzz/TARGET. Findings are in target/fuzz/TARGET-found, and all output in target/fuzz/TARGET.log.
"""

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

from checks.shared.checkout import ROOT, java_home, library
from checks.shared.command_line import Arguments, run_tool, whole

VERSION = "0.30.0"
CLASSES = {
    "config": "io.kvtier.daemon.config.ConfigFuzz",
    "ring": "io.kvtier.daemon.index.RingFuzz",
    "grpc": "io.kvtier.daemon.grpc.GrpcFuzz",
}
FOLDER = ROOT / "target" / "fuzz"
# Jazzer searches every jar on the class path for each class. These large jars have no code of the decoders.
LEFT_OUT = ("rocksdbjni-*", "aws-*", "*-2.54.2.jar", "chronicle-*", "jcuda-*", "guava-*", "jn[ar]-*", "zstd-*")
INPUT_BYTES_MAX = 8192
INPUT_S_MAX = 120
MEMORY_MIB_MAX = 4096
STATISTICS = re.compile(r"^#.*(?:INITED|DONE)|^stat::")
FOUND = re.compile("== (?:Java Exception|libFuzzer|ERROR)")
FOUND_LINES = 30


def ensure_jazzer() -> Path:
    """The folder of Jazzer's jars."""
    jars = FOLDER / f"jazzer-{VERSION}"
    if not (jars / f"jazzer-{VERSION}.jar").exists():
        for artifact in ("jazzer", "jazzer-api"):
            library(
                'find_jdk25; find_mvn; cd "$KVTIER_ROOT"; "$MVN" -B -ntp -q org.apache.maven.plugins:maven-dependency-plugin:3.10.0:copy '
                f'"-Dartifact=com.code-intelligence:{artifact}:{VERSION}" "-DoutputDirectory={jars}" || die "Jazzer did not come; its reason is above."'
            )
    return jars


def compile_targets() -> None:
    """Compiles the decoders' entry points, which are test code: the quick build leaves them out."""
    library(
        "find_jdk25; find_mvn; cd \"$KVTIER_ROOT\"; MAVEN_OPTS=\"$MAVEN_OPTS -Dorg.slf4j.simpleLogger.defaultLogLevel=warn\" "
        '"$MVN" -B -ntp -pl daemon -am -DskipTests -Dspotless.check.skip=true test-compile'
    )


def class_path(jazzer: Path) -> str:
    daemon = ROOT / "daemon" / "target"
    jars = [jar for jar in sorted((daemon / "lib").glob("*.jar")) if not any(fnmatch(jar.name, left_out) for left_out in LEFT_OUT)]
    return ":".join([f"{jazzer}/*", str(daemon / "test-classes"), str(daemon / "classes"), *map(str, jars)])


def said(lines: list[str]) -> list[str]:
    """The lines about a finding, or the last lines if Jazzer reports none."""
    for place, line in enumerate(lines):
        if FOUND.search(line):
            return lines[place : place + FOUND_LINES + 1]
    return lines[-FOUND_LINES:]


def fuzz(target: str, seconds: int) -> int:
    compile_targets()
    jazzer = ensure_jazzer()
    found, corpus, log = FOLDER / f"{target}-found", FOLDER / f"{target}-corpus", FOLDER / f"{target}.log"
    for folder in (found, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        f"{java_home()}/bin/java", "--enable-native-access=ALL-UNNAMED", "-XX:+UseSerialGC", "-Xmx512m", "-cp", class_path(jazzer),
        "com.code_intelligence.jazzer.Jazzer", f"--target_class={CLASSES[target]}", "--instrumentation_includes=io.kvtier.**",
        "--disabled_hooks=com.code_intelligence.jazzer.sanitizers.RegexRoadblocks", "--custom_hook_includes=io.kvtier.**",
        f"--reproducer_path={found}", f"-artifact_prefix={found}/", f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={INPUT_S_MAX}", f"-rss_limit_mb={MEMORY_MIB_MAX}", "-print_final_stats=1",
        str(corpus), str(ROOT / "daemon" / "src" / "test" / "resources" / "fuzz" / target),
    ]  # fmt: skip
    with log.open("w") as output:
        code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    lines = log.read_text(errors="replace").splitlines()
    print("\n".join(line for line in lines if STATISTICS.search(line)), file=sys.stderr)
    if code:
        print("\n".join(said(lines)), file=sys.stderr)
        print(f"fuzz: something was found: {found} has the input, {log} the rest", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    parser = Arguments(prog="fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("target", choices=CLASSES)
    parser.add_argument("seconds", type=whole)
    options = parser.parse_args()
    return fuzz(options.target, options.seconds)


if __name__ == "__main__":
    run_tool(main)
