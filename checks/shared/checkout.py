"""Where the checkout is that the checks and benchmarks belong to, and the functions of its shell scripts."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def library(words: str) -> None:
    """Runs functions of scripts/lib.sh, such as `find_jdk25; build_java`. Where one fails it has told why, and this process ends."""
    ran = subprocess.run(["bash", "-c", f'. "$0/scripts/lib.sh"; {words}', str(ROOT)], stdout=sys.stderr.fileno(), check=False)
    if ran.returncode:
        sys.exit(ran.returncode)
