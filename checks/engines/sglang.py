"""Compares SGLang on kvtier with SGLang without it: generated tokens, and pages that came from kvtier.

scripts/engine-check installs the programs, and starts this one. The engine is the real SGLang of its package, on processors: what it
has as CUDA kernels is replaced by torch (`sglang_stand_in`).
"""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checks.engines.sglang_run import MODEL, PAGE_TOKENS, prompt_of
from checks.engines.told import Daemon, Failed, Rows, Told
from checks.engines.vllm import processors_of
from checks.shared.command_line import Arguments, run_tool, some_of

PROMPTS = [(1, 1000), (2, 500), (3, 1600)]
FEWER = [(1, 1000)]


def pages_of(tokens: int) -> int:
    """The tokens of the whole pages that can come from a cache: the last token is computed in any case."""
    return (tokens - 1) // PAGE_TOKENS * PAGE_TOKENS


def hashes_of(tokens: list[int]) -> list[str]:
    """The keys of a prompt's whole pages, as SGLang makes them."""
    before = b""
    made = []
    for page in range(len(tokens) // PAGE_TOKENS):
        words = tokens[page * PAGE_TOKENS : (page + 1) * PAGE_TOKENS]
        before = hashlib.sha256(before + b"".join(word.to_bytes(4, "little") for word in words)).digest()
        made.append(before.hex())
    return made


def settings_of(root: Path) -> dict[str, str]:
    """The environment of a SGLang without a GPU."""
    return {
        "PYTHONPATH": f"{root / 'checks' / 'engines' / 'sglang_stand_in'}:{root}", "SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1",
        "SGLANG_NCCL_SO_PATH": "/none",
    }  # fmt: skip


class Engine(Told):
    """One SGLang."""

    def __init__(
        self, root: Path, folder: Path, name: str, storage: dict[str, Any] | None, *, ranks: int = 1, dtype: str = "float32", page: int = PAGE_TOKENS
    ) -> None:
        command = [str(root / "target" / "venv-sglang" / "bin" / "python"), "-m", "checks.engines.sglang_run", "--model", str(folder / "sglang-model")]
        command += ["--ranks", str(ranks), "--dtype", dtype, "--page", str(page)]
        if storage is not None:
            given = {"backend_name": "kvtier", "module_path": "kvtier.sglang", "class_name": "KvtierStorage", "interface_v1": 1}
            command += ["--storage", json.dumps(given | {"prefetch_threshold": PAGE_TOKENS} | storage)]
        settings = settings_of(root)
        if ranks > 1:
            settings["SGLANG_CPU_OMP_THREADS_BIND"] = processors_of(ranks, sorted(os.sched_getaffinity(0)))
        super().__init__(name, command, settings, folder / f"sglang-{name}.log")

    def generate(self, prompts: list[tuple[int, int]] = PROMPTS) -> dict[str, Any]:
        return self.run(prompts=prompts)

    def flush(self) -> None:
        # What is stored is stored by threads of the engine.
        time.sleep(1.0)
        answer = self.run(flush=True)
        if "error" in answer:
            raise Failed(answer["error"])


def make_model(root: Path, model: Path) -> None:
    """Weights in files, so that engines with different numbers of ranks have the same."""
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(MODEL))
    made = f"from pathlib import Path; from checks.engines.run import write_weights; write_weights(Path({str(model)!r}), {MODEL!r})"
    python = root / "target" / "venv-sglang" / "bin" / "python"
    subprocess.run([python, "-c", made], cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, check=True)


class Check(Rows):
    def __init__(self, root: Path, folder: Path) -> None:
        super().__init__()
        self.root = root
        self.folder = folder
        self._right: list[list[int]] = []
        model = folder / "sglang-model"
        if not (model / "model.safetensors").is_file():
            make_model(root, model)

    @contextlib.contextmanager
    def engine(self, name: str, storage: dict[str, Any] | None, **more: Any) -> Iterator[Engine]:
        made = Engine(self.root, self.folder, name, storage, **more)
        try:
            yield made
        finally:
            made.close()

    @contextlib.contextmanager
    def daemon(self, host_bytes: str = "1GiB") -> Iterator[Daemon]:
        with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
            daemon = Daemon(self.root, Path(folder), host_bytes)
            daemon.start()
            try:
                yield daemon
            finally:
                daemon.stop()

    def right(self) -> list[list[int]]:
        """The tokens without kvtier."""
        if not self._right:
            with self.engine("none", None) as plain:
                plain.generate()
                answer = plain.generate()
            self._right = answer["tokens"]
            self.tell("seconds, nothing cached in kvtier", f"{answer['seconds']:.2f}", seconds=answer["seconds"])
        return self._right

    def _same(self, case: str, answer: dict[str, Any]) -> None:
        right = self.right()
        self.hold(f"tokens, {case}", answer["tokens"] == right[: len(answer["tokens"])], "as without kvtier")

    def _hits(self, case: str, answer: dict[str, Any], prompts: list[tuple[int, int]] = PROMPTS, most: int | None = None) -> None:
        hits = sum(answer["cached"])
        expected = sum(pages_of(tokens) for _, tokens in prompts) if most is None else most
        self.hold(f"hits, {case}", hits == expected, f"{hits:,} of {expected:,} tokens; {json.dumps(answer['from'])}", hits=hits, most=expected)

    def one(self) -> None:
        """One rank: cold, flushed, restarts, a second engine, a hole, the daemon killed."""
        self.right()
        with self.daemon() as daemon:
            storage = {"kvtier.socket": str(daemon.socket)}
            with self.engine("one", storage) as first:
                cold = first.generate()
                self._same("cold", cold)
                self._hits("cold", cold, most=0)
                first.flush()
                flushed = first.generate()
                self._same("flushed", flushed)
                self._hits("flushed", flushed)
                with self.engine("second", storage) as second:
                    shared = second.generate()
                    self._same("a second engine", shared)
                    self._hits("a second engine", shared)
                self._hole(daemon, first)
                daemon.stop()
                daemon.start()
                first.flush()
                restarted = first.generate()
                self._same("the daemon restarted", restarted)
                self._hits("the daemon restarted", restarted)
                self._killed(daemon, first)
            daemon.start()
            with self.engine("again", storage) as again:
                answer = again.generate()
                self._same("the engine restarted", answer)
                self._hits("the engine restarted", answer)

    def _hole(self, daemon: Daemon, first: Engine) -> None:
        """A page that has gone gives exactly the pages before it, and is stored again."""
        first.flush()
        (seed, tokens), hole = PROMPTS[0], 20
        namespace = first.log().rpartition(", namespace ")[2].splitlines()[0]
        key = hashes_of(prompt_of(seed, tokens))[hole]
        command = [str(self.root / "scripts" / "kvtier"), "delete", "--socket", str(daemon.socket), "--yes", "--namespace", namespace, key]
        told = subprocess.run(command, capture_output=True, text=True)
        self.hold("a page is deleted", told.returncode == 0, (told.stdout + told.stderr).strip()[-200:])
        answer = first.generate(FEWER)
        self._same("a hole", answer)
        self._hits("a hole", answer, FEWER, most=hole * PAGE_TOKENS)
        first.flush()
        self._hits("the hole was filled", first.generate(FEWER), FEWER)

    def _killed(self, daemon: Daemon, first: Engine) -> None:
        first.flush()
        first.begin(prompts=PROMPTS)
        time.sleep(0.02)
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGKILL)
        answer = first.end_of_run()
        daemon.process.wait()
        self._same("the daemon killed in mid-prefetch", answer)

    def two(self) -> None:
        """Two ranks fill, an engine of one finds it all, and the reverse."""
        self.right()
        with self.daemon() as daemon:
            storage = {"kvtier.socket": str(daemon.socket)}
            with self.engine("two", storage, ranks=2) as first:
                cold = first.generate()
                self._same("two ranks, cold", cold)
                first.flush()
                flushed = first.generate()
                self._same("two ranks, flushed", flushed)
                self._hits("two ranks, flushed", flushed)
            with self.engine("two-then-one", storage) as one:
                answer = one.generate()
                self._same("one rank after two", answer)
                self._hits("one rank after two", answer)

    def absent(self) -> None:
        """No daemon."""
        right = self.right()
        with self.engine("absent", {"kvtier.socket": str(self.folder / "nothing.sock")}) as alone:
            alone.generate()
            answer = alone.generate()
        self.hold("tokens, no daemon", answer["tokens"] == right, "as without kvtier")
        self.tell("seconds, no daemon", f"{answer['seconds']:.2f}", seconds=answer["seconds"])

    def mismatch(self) -> None:
        """Another element type or page size in one namespace: the engine does not start, and says what differs. Other weights: no hits."""
        with self.daemon() as daemon:
            storage = {"kvtier.socket": str(daemon.socket), "kvtier.namespace": "one", "kvtier.weights": "w"}
            with self.engine("first", storage) as first:
                first.generate(FEWER)
                first.flush()
                for what, more, named in (("element type", {"dtype": "bfloat16"}, "dtype"), ("page size", {"page": 32}, "block")):
                    try:
                        with self.engine(f"other-{named}", storage, **more) as other:
                            other.generate(FEWER)
                        self.hold(f"another {what}", False, "the engine started")
                    except Failed as error:
                        log = (self.folder / f"sglang-other-{named}.log").read_text(errors="replace")
                        told = [line for line in log.splitlines() if "kvtier does not mix" in line]
                        self.hold(f"another {what}", bool(told) and named in told[-1], told[-1][-400:] if told else str(error)[-400:])
                with self.engine("other-weights", storage | {"kvtier.weights": "v"}) as other:
                    answer = other.generate(FEWER)
                    self._hits("other weights", answer, FEWER, most=0)


    def speed(self) -> None:
        """Pages that are written and read a second, beside SGLang's own backend for files."""
        with self.daemon("8GiB") as daemon:
            out = self.folder / "sglang-storage.json"
            command = [str(self.root / "target" / "venv-sglang" / "bin" / "python"), "-m", "checks.engines.sglang_storage"]
            told = subprocess.run(
                [*command, "--socket", str(daemon.socket), "--out", str(out)], env={**os.environ, **settings_of(self.root)}, capture_output=True, text=True,
                timeout=600,
            )  # fmt: skip
            if told.returncode:
                raise Failed((told.stdout + told.stderr)[-1500:])
        for row in json.loads(out.read_text()):
            for what in ("store", "load"):
                ratio, rates = row[f"{what}_ratio"], row["gb_per_s"]
                text = f"{rates[f'kvtier {what}']:.2f} GB/s, {ratio:.2f} times the file backend's {rates[f'file {what}']:.2f}"
                self.hold(f"{what}, {row['layout']}", ratio >= 2, text, ratio=ratio)


def main() -> int:
    cases = ("one", "two", "absent", "mismatch", "speed")
    parser = Arguments(prog="scripts/engine-check sglang")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--json", type=Path, help="writes the rows to this file")
    parser.add_argument("--only", type=some_of(cases), default=list(cases), help=f"of {', '.join(cases)}")
    arguments = parser.parse_args()
    folder = arguments.root / "target" / "engine-check"
    folder.mkdir(parents=True, exist_ok=True)
    return Check(arguments.root, folder).run(arguments.only, arguments.json, folder)


if __name__ == "__main__":
    run_tool(main)
