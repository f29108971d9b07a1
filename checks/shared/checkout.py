"""The folder of this checkout, and the functions of its shell scripts."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def library(words: str) -> None:
    """Runs functions of scripts/lib.sh, such as `find_jdk25; build_java`. If one fails, it has printed the reason, and this process ends."""
    ran = subprocess.run(["bash", "-c", f'. "$0/scripts/lib.sh"; {words}', str(ROOT)], stdout=sys.stderr.fileno(), check=False)
    if ran.returncode:
        sys.exit(ran.returncode)


def java_home() -> str:
    """The folder of a JDK that the daemon runs on."""
    command = ["bash", "-c", '. scripts/lib.sh && find_jdk25 && echo "$JAVA_HOME"']
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def class_path(module: str) -> str:
    """The class path of a module of this version that has a main class."""
    command = ["bash", "-c", '. scripts/lib.sh && class_path "$1"', "bash", module]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
