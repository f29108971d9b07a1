"""A wall clock that can jump, for the daemon alone."""

import mmap
import shutil
import subprocess
from pathlib import Path


class Clock:
    """Shifts what a process that is started with ``environment`` takes for the time of day; the machine's clock stays."""

    def __init__(self, folder: Path) -> None:
        self.environment: dict[str, str] = {}
        self.missing: str | None = None
        shift = folder / "clock-shift"
        shift.write_bytes(bytes(8))
        with shift.open("r+b") as file:
            self._shift = mmap.mmap(file.fileno(), 8)
        library = folder / "soak_clock.so"
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.missing = "there is no C compiler for what shifts the daemon's clock, and the machine's is everybody's"
            return
        source = Path(__file__).with_suffix(".c")
        made = subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source)], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            self.missing = f"what shifts the daemon's clock can't be compiled: {made.stderr.strip()}"
            return
        self.environment = {"LD_PRELOAD": str(library), "KVTIER_SOAK_CLOCK": str(shift)}

    def shift(self, seconds: int) -> None:
        """From now on the clock shows so many seconds more than the machine's."""
        self._shift[:] = seconds.to_bytes(8, "little", signed=True)
