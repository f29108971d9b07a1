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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checks.engines.sglang_points import FOLDER, POINTS
from checks.engines.sglang_run import MODEL, PAGE_TOKENS, prompt_of
from checks.engines.told import Daemon, Failed, Rows, Told
from checks.engines.vllm_engine import processors_of
from checks.shared.command_line import Arguments, run_tool, some_of
from checks.shared.wakes import wake_times_us

PROMPTS = [(1, 1000), (2, 500), (3, 1600)]
FEWER = [(1, 1000)]
HICACHE, LINKER, PROBE = "hicache", "linker", "probe"
"""how the engine reaches kvtier: through its hierarchical cache, directly, or directly with the probe of `sglang_probe`"""
LINKERS = {LINKER: ("kvtier.sglang.linker", "KvtierLinker"), PROBE: ("checks.engines.sglang_probe", "ProbedLinker")}
TURNS = 6
LOOKUP_US_MAX = 100
ABSENT_SHARE_MAX = 1.1


def _middle_and_late(taken: list[float]) -> tuple[float, float]:
    """The 50th and the 99th hundredth of what is sorted."""
    return taken[len(taken) // 2], taken[len(taken) * 99 // 100]


def pages_of(tokens: int) -> int:
    """The tokens of the whole pages that can come from a cache: the last token is computed in any case."""
    return (tokens - 1) // PAGE_TOKENS * PAGE_TOKENS


def hashes_of(tokens: list[int], page_tokens: int = PAGE_TOKENS) -> list[str]:
    """The keys of a prompt's whole pages, as SGLang makes them."""
    before = b""
    made = []
    for page in range(len(tokens) // page_tokens):
        words = tokens[page * page_tokens : (page + 1) * page_tokens]
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
        self, root: Path, folder: Path, name: str, settings: dict[str, Any] | None, *, through: str = HICACHE, ranks: int = 1, dtype: str = "float32",
        page: int = PAGE_TOKENS, hierarchical: bool = False,
    ) -> None:  # fmt: skip
        """`settings`: kvtier's; None: an engine without kvtier, with the hierarchical cache only if `hierarchical`."""
        command = [str(root / "target" / "venv-sglang" / "bin" / "python"), "-m", "checks.engines.sglang_run", "--model", str(folder / "sglang-model")]
        command += ["--ranks", str(ranks), "--dtype", dtype, "--page", str(page), *(["--hierarchical"] if hierarchical else [])]
        if settings is not None and through == HICACHE:
            given = {"backend_name": "kvtier", "module_path": "kvtier.sglang", "class_name": "KvtierStorage", "interface_v1": 1}
            command += ["--storage", json.dumps(given | {"prefetch_threshold": PAGE_TOKENS} | settings)]
        elif settings is not None:
            module, kind = LINKERS[through]
            command += ["--linker", json.dumps({"linker_module_path": module, "linker": kind, "linker_extra_config": settings})]
        environment = settings_of(root) | {FOLDER: str(folder)}
        if ranks > 1:
            environment["SGLANG_CPU_OMP_THREADS_BIND"] = processors_of(ranks, sorted(os.sched_getaffinity(0)))
        self._through = through
        super().__init__(name, command, environment, folder / f"sglang-{name}.log")

    def generate(self, prompts: list[tuple[int, int]] = PROMPTS) -> dict[str, Any]:
        return self.run(prompts=prompts)

    def flush(self) -> None:
        if self._through == HICACHE:
            # Threads of the engine store the pages. The linker's stores end before a flush ends.
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
        self._through = HICACHE
        self._right: list[list[int]] = []
        model = folder / "sglang-model"
        if not (model / "model.safetensors").is_file():
            make_model(root, model)

    @contextlib.contextmanager
    def engine(self, name: str, settings: dict[str, Any] | None, **more: Any) -> Iterator[Engine]:
        through = more.pop("through", self._through)
        made = Engine(self.root, self.folder, name if through == HICACHE else f"{through}-{name}", settings, through=through, **more)
        try:
            yield made
        finally:
            made.close()

    @contextlib.contextmanager
    def daemon(self, host_bytes: str = "1GiB", settings: Mapping[str, str] | None = None) -> Iterator[Daemon]:
        with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
            daemon = Daemon(self.root, Path(folder), host_bytes, settings)
            daemon.start()
            try:
                yield daemon
            finally:
                daemon.stop()

    def right(self) -> list[list[int]]:
        """The tokens without kvtier."""
        if not self._right:
            with self.engine("none", None) as plain:
                self._right = plain.generate()["tokens"]
        return self._right

    def _same(self, case: str, answer: dict[str, Any]) -> None:
        right = self.right()
        self.hold(f"tokens, {self._named(case)}", answer["tokens"] == right[: len(answer["tokens"])], "as without kvtier")
        aborted = [one for one in answer["ends"] if (one or {}).get("type") == "abort"]
        if aborted:
            self.hold(f"requests, {self._named(case)}", False, f"{len(aborted)} were aborted: {aborted[0]}")

    def _named(self, case: str) -> str:
        return case if self._through == HICACHE else f"linker, {case}"

    def _hits(self, case: str, answer: dict[str, Any], prompts: list[tuple[int, int]] = PROMPTS, most: int | None = None) -> None:
        hits = sum(answer["cached"])
        expected = sum(pages_of(tokens) for _, tokens in prompts) if most is None else most
        self.hold(f"hits, {self._named(case)}", hits == expected, f"{hits:,} of {expected:,} tokens; {json.dumps(answer['from'])}", hits=hits, most=expected)

    def one(self) -> None:
        """One rank: cold, flushed, restarts, a second engine, a hole, the daemon killed."""
        self.right()
        with self.daemon() as daemon:
            settings = {"kvtier.socket": str(daemon.socket)}
            with self.engine("one", settings) as first:
                cold = first.generate()
                self._same("cold", cold)
                self._hits("cold", cold, most=0)
                first.flush()
                flushed = first.generate()
                self._same("flushed", flushed)
                self._hits("flushed", flushed)
                with self.engine("second", settings) as second:
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
            with self.engine("again", settings) as again:
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
        self.hold(self._named("a page is deleted"), told.returncode == 0, (told.stdout + told.stderr).strip()[-200:])
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
            settings = {"kvtier.socket": str(daemon.socket)}
            with self.engine("two", settings, ranks=2) as first:
                cold = first.generate()
                self._same("two ranks, cold", cold)
                first.flush()
                flushed = first.generate()
                self._same("two ranks, flushed", flushed)
                self._hits("two ranks, flushed", flushed)
            with self.engine("two-then-one", settings) as one:
                answer = one.generate()
                self._same("one rank after two", answer)
                self._hits("one rank after two", answer)

    def absent(self) -> None:
        """No daemon: prompts of which nothing is cached, in turns with an engine without kvtier. HiCache takes time itself, also without a
        backend below its host memory. So the engine without kvtier has HiCache too, and a third one has no HiCache."""
        self.right()
        is_hicache = self._through == HICACHE
        with contextlib.ExitStack() as stack:
            alone = stack.enter_context(self.engine("absent", {"kvtier.socket": str(self.folder / "nothing.sock")}))
            without = stack.enter_context(self.engine("without", None, hierarchical=is_hicache))
            engines = [without, alone, *([stack.enter_context(self.engine("plain", None))] if is_hicache else [])]
            self._same("no daemon", alone.generate())
            taken: dict[str, list[float]] = {}
            for _ in range(TURNS):
                for one in engines:
                    one.flush()
                    taken.setdefault(one.name, []).append(one.generate()["seconds"])
        without_s, with_s, *plain_s = (min(taken[one.name]) for one in engines)
        share = with_s / without_s
        text = f"{with_s:.3f} s, {share:.2f} times the {without_s:.3f} s without kvtier"
        self.hold(f"seconds, {self._named('no daemon')}", share < ABSENT_SHARE_MAX, text, seconds=with_s, plain_s=without_s, share=share)
        for plain in plain_s:
            text = f"{without_s:.3f} s without kvtier, {without_s / plain:.2f} times the {plain:.3f} s without HiCache"
            self.tell("seconds, HiCache itself", text, seconds=without_s, plain_s=plain, share=without_s / plain)

    def mismatch(self) -> None:
        """Another element type or page size in one namespace: the engine does not start, and says what differs. Other weights: no hits."""
        with self.daemon() as daemon:
            settings = {"kvtier.socket": str(daemon.socket), "kvtier.namespace": "one", "kvtier.weights": "w"}
            with self.engine("first", settings) as first:
                first.generate(FEWER)
                first.flush()
                for what, more, named in (("element type", {"dtype": "bfloat16"}, "dtype"), ("page size", {"page": 32}, "block")):
                    try:
                        with self.engine(f"other-{named}", settings, **more) as other:
                            other.generate(FEWER)
                        self.hold(self._named(f"another {what}"), False, "the engine started")
                    except Failed as error:
                        prefix = "" if self._through == HICACHE else f"{self._through}-"
                        log = (self.folder / f"sglang-{prefix}other-{named}.log").read_text(errors="replace")
                        told = [line for line in log.splitlines() if "kvtier does not mix" in line]
                        self.hold(self._named(f"another {what}"), bool(told) and named in told[-1], told[-1][-400:] if told else str(error)[-400:])
                with self.engine("other-weights", settings | {"kvtier.weights": "v"}) as other:
                    answer = other.generate(FEWER)
                    self._hits("other weights", answer, FEWER, most=0)

    # ---- the linker ----

    @contextlib.contextmanager
    def _linked(self, through: str = LINKER) -> Iterator[None]:
        """Engines have the linker meanwhile."""
        self._through = through
        try:
            yield
        finally:
            self._through = HICACHE

    def linker_one(self) -> None:
        """As `one`, with the linker."""
        with self._linked():
            self.one()

    def linker_two(self) -> None:
        """As `two`, with the linker."""
        with self._linked():
            self.two()

    def linker_absent(self) -> None:
        """As `absent`, with the linker."""
        with self._linked():
            self.absent()

    def linker_mismatch(self) -> None:
        """As `mismatch`, with the linker."""
        with self._linked():
            self.mismatch()

    def linker_shares(self) -> None:
        """What one seam of SGLang has stored, the other one finds."""
        self.right()
        for first, second in ((HICACHE, LINKER), (LINKER, HICACHE)):
            with self.daemon() as daemon:
                settings = {"kvtier.socket": str(daemon.socket)}
                with self.engine("writes", settings, through=first) as writer:
                    writer.generate()
                    writer.flush()
                with self.engine("reads", settings, through=second) as reader:
                    answer = reader.generate()
                self._same(f"{second} after {first}", answer)
                self._hits(f"{second} after {first}", answer)

    def linker_kills(self) -> None:
        """The daemon is killed at each point of a load: no request is aborted."""
        self._kills(1, POINTS)

    def linker_kills_two(self) -> None:
        """As `linker_kills` with two ranks, at the points at which their answers could differ."""
        self._kills(2, POINTS[3:9])

    def _kills(self, ranks: int, points: Sequence[str]) -> None:
        self.right()
        with self._linked(PROBE), self.daemon() as daemon:
            with self.engine(f"kills-{ranks}", {"kvtier.socket": str(daemon.socket)}, ranks=ranks) as one:
                for point in points:
                    self._killed_at(daemon, one, point, ranks)

    def _killed_at(self, daemon: Daemon, one: Engine, point: str, ranks: int) -> None:
        case = f"the daemon killed {point}" + (f", {ranks} ranks" if ranks > 1 else "")
        most = pages_of(FEWER[0][1])
        for _ in range(20):
            # Until all pages are in the daemon.
            one.flush()
            if sum(one.generate(FEWER)["cached"]) == most:
                break
        one.flush()
        assert daemon.process is not None
        kill = self.folder / "kill"
        kill.write_text(json.dumps({"point": point, "process": daemon.process.pid}))
        answer = one.generate(FEWER)
        self.hold(f"point, {case}", not kill.exists(), "it was reached")
        kill.unlink(missing_ok=True)
        self._same(case, answer)
        hits = sum(answer["cached"])
        self.tell(f"hits, {case}", f"{hits:,} of {most:,} tokens", hits=hits)
        daemon.kill()
        daemon.start()

    def linker_lookups(self) -> None:
        """How long the scheduler waits for a lookup."""
        with self._linked(PROBE), self.daemon() as daemon, self.engine("lookups", {"kvtier.socket": str(daemon.socket)}) as one:
            one.generate(FEWER)
            one.flush()
            (self.folder / "time").write_text("")
            one.generate(FEWER)
            told = json.loads((self.folder / "times").read_text())
            middle, late = _middle_and_late(sorted(told["us"]))
            text = f"p50 {middle:.0f} us, p99 {late:.0f} us, {told['pages']} pages, {len(told['us']):,} lookups"
            self.hold("linker, lookups", late < LOOKUP_US_MAX, text, p50_us=middle, p99_us=late)
            of_own = _middle_and_late(sorted(told["own_us"]))
            for what, (p50, p99), of in (
                ("own time", of_own, "Python in the same thread that takes as long as a lookup, and asks nobody"),
                ("pings", _middle_and_late(sorted(told["ping_us"])), "a call to the daemon without keys, from the same thread"),
                ("wake-ups", _middle_and_late(wake_times_us()), "a byte to another process and back, both of which sleep meanwhile"),
            ):
                text = f"p50 {p50:.0f} us, p99 {p99:.0f} us, for {of}; the p99 of lookups is {late / p99:.1f} times that"
                self.tell(f"linker, lookups, {what}", text, p50_us=p50, p99_us=p99, ratio=late / p99)

    # ---- beside other caches ----

    def _beside(self, program: str, *more: str, settings: Mapping[str, str] | None = None) -> Any:
        """What a program has measured that moves pages to a daemon and to another cache, in SGLang's virtual environment.

        Args:
            settings: of the daemon.
        """
        out = self.folder / "beside.json"
        out.unlink(missing_ok=True)
        with self.daemon("8GiB", settings) as daemon:
            command = [str(self.root / "target" / "venv-sglang" / "bin" / "python"), "-m", program, "--socket", str(daemon.socket), "--out", str(out), *more]
            environment = os.environ | settings_of(self.root)
            environment["PYTHONPATH"] += f":{self.root / 'client-py' / 'testing'}"
            told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
            if told.returncode:
                raise Failed((told.stdout + told.stderr)[-1500:])
        return json.loads(out.read_text())

    def lmcache(self) -> None:
        """Pages that the linker writes and reads a second, beside LMCache's connector for SGLang. Both caches have memory only: a daemon that
        writes a prompt to its SSD takes processors and memory from the loads that follow, its own and LMCache's."""
        program = str(self.root / "target" / "venv-lmcache" / "bin" / "lmcache")
        row = self._beside("checks.engines.sglang_lmcache", "--lmcache", program, settings={"ssd.bytes": "0"})
        for what in ("store", "load"):
            ours, theirs = (row["gb_per_s"][f"{name} {what}"] for name in ("kvtier", "LMCache"))
            text = f"{ours:.2f} GB/s, {ours / theirs:.2f} times LMCache's {theirs:.2f}"
            self.hold(f"linker, {what}, beside LMCache", ours >= 2 * theirs, text, ratio=ours / theirs)

    def speed(self) -> None:
        """Pages that are written and read a second, beside SGLang's own backend for files."""
        for row in self._beside("checks.engines.sglang_storage"):
            for what in ("store", "load"):
                ratio, rates = row[f"{what}_ratio"], row["gb_per_s"]
                text = f"{rates[f'kvtier {what}']:.2f} GB/s, {ratio:.2f} times the file backend's {rates[f'file {what}']:.2f}"
                self.hold(f"{what}, {row['layout']}", ratio >= 2, text, ratio=ratio)


def main() -> int:
    cases = (
        "one", "two", "absent", "mismatch", "speed", "lmcache", "linker_one", "linker_two", "linker_absent", "linker_mismatch", "linker_shares", "linker_kills",
        "linker_kills_two", "linker_lookups",
    )  # fmt: skip
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
