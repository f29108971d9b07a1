"""TTFT of a real SGLang on a GPU: prompts that come back from kvtier, from SGLang's own backend for files and from its host memory,
beside new prompts, prompts that are still on the GPU, and what the link to the GPU takes for the same bytes.

Packed by scripts/engine-check gpu-pack, to run where there is a GPU and PyTorch but no network: PACK/run --out FOLDER. Each
part has a time limit, and what it found is written when it ends. Parts may come again: then they run by turns.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from checks.engines.parts import Parts, run
from checks.engines.sglang_ttft import TIERS
from checks.shared.command_line import Arguments, folder, run_tool, some_of, whole

PARTS = ("link", *TIERS)


class Runs(Parts):
    """The parts with SGLang."""

    def __init__(self, out: Path, work: Path, arguments: argparse.Namespace) -> None:
        super().__init__(out, work, arguments)
        self._timeout_s = arguments.timeout
        self._files = arguments.files
        self._more = ["--attention", arguments.attention, "--layout", arguments.layout, "--page", str(arguments.page)]
        self._more += ["--tiny"] if arguments.tiny else []

    def _ttft(self, name: str, *more: str, settings: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-P", "-m", "checks.engines.sglang_ttft", "--tier", name, "--lens", self.lens, "--reps", str(self.reps)]
        self.measure(name, [*command, *self._more, *more], self._timeout_s, settings or {})

    def none(self) -> None:
        """Nothing below the GPU."""
        self._ttft("none")

    def memory(self) -> None:
        """SGLang's host memory: what comes from a storage backend goes through it."""
        self._ttft("memory")

    def files(self) -> None:
        """SGLang's own backend."""
        with tempfile.TemporaryDirectory(prefix="kvtier-files-", dir=self._files) as folder:
            self._ttft("files", "--folder", folder, settings={"SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR": folder})

    def kvtier(self) -> None:
        """kvtier's storage backend, and blocks in the daemon's memory."""
        daemon = self.daemon("kvtierd", self.host, "0")
        try:
            self._ttft("kvtier", "--socket", str(self.work / "sock"))
        finally:
            daemon.stop()


def main(words: list[str] | None = None) -> int:
    """The program; returns its exit code: 1 where a part or an engine failed, 2 for wrong usage."""
    parser = Arguments(prog="run")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lens", default="8192,32768")
    parser.add_argument("--only", type=some_of(PARTS, again=True), default=list(PARTS), help="in this order; one may come again")
    parser.add_argument("--reps", type=whole, default=3, help="prompts of each length, of whose times the median is taken")
    parser.add_argument("--host", default="40GiB", help="kvtier's memory: as much as all prompts take")
    parser.add_argument("--attention", default="fa3", help="SGLang's attention backend")
    parser.add_argument("--layout", default="page_first_direct", help="of SGLang's host memory")
    parser.add_argument("--page", type=whole, default=64, help="tokens of a page")
    parser.add_argument("--timeout", type=whole, default=200, help="seconds of a part at most")
    parser.add_argument("--files", type=folder, default="/dev/shm", help="where SGLang's backend keeps its files: in memory they are fastest (default: %(default)s)")
    parser.add_argument("--tiny", action="store_true", help="a model for a processor, to try the program")
    arguments = parser.parse_args(words)
    return run(Runs, arguments)


if __name__ == "__main__":
    run_tool(main)
