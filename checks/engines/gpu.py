"""TTFT of a real vLLM on a GPU: without a connector, with vLLM's own offloading, LMCache, and kvtier, in one run, and beside
what the link to the GPU takes for the same bytes.

Packed by scripts/engine-check gpu-pack, to run where there is a GPU and PyTorch but no network: PACK/run --out FOLDER. Each
part has a time limit, and what it found is written when it ends.
"""

import argparse
import contextlib
import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvtier_testing import process

from checks.engines import several
from checks.engines.apart import NIXL, apart, apart_by_nixl, nodes
from checks.engines.parts import Parts, Server, run
from checks.engines.switch import share
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool, some_of, whole

OFFLOADING = {
    "kv_connector": "OffloadingConnector", "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 34359738368},
}  # fmt: skip
LMCACHE = {
    "kv_connector": "LMCacheMPConnector", "kv_role": "kv_both",
    "kv_connector_extra_config": {"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": 5555},
}  # fmt: skip
_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"timed": {"format": "%(asctime)s.%(msecs)03d %(levelname)s %(message)s", "datefmt": "%H:%M:%S"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "timed", "stream": "ext://sys.stdout"}},
    "loggers": {
        "vllm": {"handlers": ["out"], "level": "INFO", "propagate": False},
        "vllm.kvtier": {"level": "DEBUG"},
    },
}
_FOUND = re.compile(r"request (\S+): found (\d+) blocks within ([0-9.]+) ms")
_LOADED = re.compile(r"request (\S+): loaded (\d+) of \d+ blocks in ([0-9.]+) ms")
MODULES_OF_SERVER = "import sys; sys.argv[0] = 'lmcache'; from lmcache.cli.main import main; main()"


def restores(log: str) -> list[dict[str, Any]]:
    """The log lines of kvtier's connector about each request with a load.

    Each has the blocks, the milliseconds until they were found and the engine had space for them, and the milliseconds of the load.
    """
    found = {request: float(ms) for request, _, ms in _FOUND.findall(log)}
    return [
        {"blocks": int(blocks), "found_ms": found.get(request), "load_ms": float(ms)}
        for request, blocks, ms in _LOADED.findall(log)
    ]


def _told(log: str) -> dict[str, Any]:
    told = restores(log)
    return {"restores": told} if told else {}


def of_pairs(found: dict[str, Any], link_ms: float) -> dict[str, float]:
    """The results of pairs.py in medians.

    Differences and ratios are taken within each pair: a machine that is slower for a while does not change them.
    """
    pairs = found["pairs"]
    made = {name: statistics.median(found[name]) for name in ("without_ms", "computed_ms", "stored_ms", "flush_ms")}
    made |= {
        "restored_less_hit_ms": statistics.median(one["restored_ms"] - one["hit_ms"] for one in pairs),
        "hit_ms": statistics.median(one["hit_ms"] for one in pairs),
        "hit_costs_ms": statistics.median(one["hit_ms"] - one["hit_without_ms"] for one in pairs),
        "wrong": sum(not one["same"] for one in pairs),
    }
    # Shares of the time without a connector.
    made["connector"] = made["computed_ms"] / made["without_ms"] - 1
    made["saving"] = made["stored_ms"] / made["without_ms"] - 1
    if link_ms:
        made["link_ms"] = link_ms
        made["of_limit"] = statistics.median(one["restored_ms"] / (one["hit_ms"] + link_ms) for one in pairs)
    return made


def of_encodings(found: dict[str, Any], link_ms: float) -> dict[str, Any]:
    """The results of encodings.py in medians; ratios of restores are taken within each pair. `link_ms`: what the link takes for the raw
    bytes; 0: unknown."""
    raw = found["restores"]["raw"]
    made: dict[str, Any] = {"counters": found["counters"]}
    for mode, rows in found["restores"].items():
        row = made[mode] = {name: statistics.median(one[name] for one in rows) for name in ("restored_ms", "hit_ms")}
        row |= {"computed_ms": statistics.median(found["computed_ms"][mode]), "wrong": sum(not one["same"] for one in rows)}
        if link_ms:
            row |= {"link_ms": link_ms, "of_limit": statistics.median(one["restored_ms"] / (one["hit_ms"] + link_ms) for one in rows)}
        row["restored_ratio"] = statistics.median(one["restored_ms"] / other["restored_ms"] for one, other in zip(rows, raw, strict=True))
        row["computed_ratio"] = row["computed_ms"] / statistics.median(found["computed_ms"]["raw"])
    return made


def of_batches(found: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """The results of batches.py by the kind of batch: the throughput with kvtier, and with a connector that does nothing."""
    made: dict[str, dict[str, float]] = {}
    for name, modes in found.items():
        made[name] = {"without_ms": statistics.median(modes["without"])}
        for of, mode in (("", "stored"), ("bare_", "bare")):
            faster, medians = share(modes["without"], modes[mode])
            made[name] |= {f"{of}throughput": medians, f"{of}of_faster_half": faster}
    return made


def of_layers(found: dict[str, Any], link_ms: Callable[[int], float]) -> dict[str, dict[str, Any]]:
    """The results of layers.py in medians, by the length of the prompts. `link_ms`: what the link takes for so many tokens; 0: unknown.

    By the tokens at the end that were new: a restore that comes whole ends with the sum of a hit and the link at best, one that comes
    by layer with the longer one of both.
    """
    made: dict[str, dict[str, Any]] = {}
    for length, kinds in found.items():
        row = made[length] = {f"copy_{mode}_ms": statistics.median(times) for mode, times in kinds["copies"].items()}
        for mode, runs in kinds["beside"].items():
            row[f"beside_{mode}"] = {name: statistics.median(one[name] for one in runs) for name in runs[0]}
        for tail, times in kinds.items():
            if not tail.isdigit():
                continue
            whole, layers = statistics.median(times["whole"]), statistics.median(times["layers"])
            hit = statistics.median([*times["whole_hit"], *times["layers_hit"]])
            row[f"new_{tail}"] = {"whole_ms": whole, "layers_ms": layers, "hit_ms": hit, "ratio": layers / whole}
            row[f"new_{tail}"] |= {"wrong": times["wrong"], "promised": times["promised"] / len(times["layers"])}
            link = link_ms(int(length) - int(tail))
            if link:
                row[f"new_{tail}"] |= {"link_ms": link, "whole_of_limit": whole / (hit + link), "layers_of_limit": layers / max(hit, link)}
    return made


def kvtier(socket: Path, role: str = "kv_both", **settings: Any) -> dict[str, Any]:
    """vLLM's configuration of the connector, with more of its settings by their names."""
    return {
        "kv_connector": "KvtierConnector", "kv_role": role, "kv_connector_module_path": "kvtier.vllm",
        "kv_connector_extra_config": {"kvtier.socket": str(socket)} | {f"kvtier.{name}": value for name, value in settings.items()},
    }  # fmt: skip


class Runs(Parts):
    """The parts with vLLM."""

    def __init__(self, out: Path, work: Path, arguments: argparse.Namespace) -> None:
        super().__init__(out, work, arguments)
        self.logging = work / "logging.json"
        self.logging.write_text(json.dumps(_LOGGING))
        self.tiny = arguments.tiny
        self.gpus = arguments.gpus.split(",")

    def ttft(self, name: str, kv: dict[str, Any] | None, lens: str = "", timeout_s: float = 160) -> None:
        command = [sys.executable, str(ROOT / "engine" / "ttft.py"), "--lens", lens or self.lens, "--reps", str(self.reps)]
        if kv:
            command += ["--kv", json.dumps(kv)]
        self.measure(name, command, timeout_s, {"VLLM_LOGGING_CONFIG_PATH": str(self.logging)}, _told)

    def none(self) -> None:
        self.ttft("none", None)

    def offloading(self) -> None:
        self.ttft("offloading", OFFLOADING)

    def lmcache(self) -> None:
        command = [
            sys.executable, "-c", MODULES_OF_SERVER, "server", "--l1-size-gb", "32", "--eviction-policy", "LRU",
            "--host", "127.0.0.1", "--port", "5555",
        ]  # fmt: skip
        server = Server(command, "Application startup complete", self.file("lmcache-server", ".log"), 60)
        try:
            self.ttft("lmcache", LMCACHE)
        finally:
            server.stop()

    def kvtier(self) -> None:
        """An engine, and a second one that finds what the first has computed: its cold prompts are restored."""
        daemon = self.daemon("kvtierd", self.host, "0")
        try:
            self.ttft("kvtier", kvtier(self.work / "sock"))
            self.ttft("kvtier-second-engine", kvtier(self.work / "sock"))
        finally:
            daemon.stop()

    def pairs(self) -> None:
        """One process that restores and hits in turns, and saves or not."""
        made = of_pairs(self._by_turns("pairs", "pairs"), self.link_ms(self._longest))
        self.has_failed |= bool(made["wrong"])
        self.note("pairs", **made)

    def encodings(self) -> None:
        """One process that restores and stores encoded blocks and raw ones, in turns."""
        found = self._by_turns("encodings", "encodings", encoding="exact")
        made = of_encodings(found, self.link_ms(self._longest))
        self.has_failed |= any(made[mode]["wrong"] for mode in ("raw", "exact"))
        self.note("encodings", **made)

    def batches(self) -> None:
        """New prompts with the connector and without."""
        self.note("batches", **of_batches(self._by_turns("batches", "batches")))

    def batches_eager(self) -> None:
        """New prompts with the connector and without, without CUDA graphs."""
        self.note("batches_eager", **of_batches(self._by_turns("batches_eager", "batches", "--eager", "--only", "prompts")))

    def layers(self) -> None:
        """Loads that come by layer and whole, in turns within one process."""
        self._layers("layers")

    def layers_graphs(self) -> None:
        """As `layers`, with CUDA graphs for the steps that only generate."""
        self._layers("layers_graphs", "--graphs")

    def _layers(self, name: str, *more: str) -> None:
        found = self._by_turns(name, "layers", "--lens", self.lens, *more, load_by_layer="on")
        made = of_layers(found, self.link_ms)
        self.has_failed |= any(kind["wrong"] for row in made.values() for name, kind in row.items() if name.startswith("new_"))
        self.note(name, **made)

    @property
    def _longest(self) -> int:
        return int(self.lens.split(",")[-1])

    def _by_turns(self, name: str, program: str, *more: str, **settings: Any) -> dict[str, Any]:
        """Runs a program that changes the connector of its engine as it runs; returns its figures. `settings`: of the connector."""
        out = self.file(name, ".json")
        command = [sys.executable, "-m", f"checks.engines.{program}", "--out", str(out), "--tokens", str(self._longest)]
        command += ["--kv", json.dumps(kvtier(self.work / "sock", **settings)), *more]
        daemon = self.daemon(f"kvtierd-{name}", self.host, "0")
        try:
            with self.file(name, ".log").open("w") as log:
                subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=420, check=True)
        finally:
            daemon.stop()
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    def ranks(self) -> None:
        """Engines of two ranks and of one restore each other's blocks."""
        with several.model_of(self.tiny) as model:
            daemon = self.daemon("kvtierd-ranks", self.host, "0")
            try:
                self.has_failed |= not several.ranks(self._starter(model, {}), self.note, self._lens, self.reps, self.link_ms)
            finally:
                daemon.stop()

    def sharing(self) -> None:
        """One engine gets blocks from another's GPU memory, and from host memory."""
        from kvtier import Client

        with several.model_of(self.tiny) as model:
            daemon = self.daemon("kvtierd-sharing", self.host, "0")
            try:
                with Client(self.work / "sock", timeout=30) as client:
                    start = self._starter(model, {"share": "on"})
                    self.has_failed |= not several.sharing(start, self.note, self._lens, self.reps, client.counters)
            finally:
                daemon.stop()

    def prefill_decode(self) -> None:
        """One engine computes prompts, the other goes on with them, on two GPUs with a daemon each."""
        from kvtier import Client

        def daemon(name: str, socket: Path, settings: dict[str, str]) -> Server:
            return self.daemon(f"kvtierd-{name}", self.host, "0", socket, settings)

        with several.model_of(self.tiny) as model, nodes(daemon, self.work) as sockets, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Client(socket, timeout=30)) for socket in sockets]

            def start(node: int, role: str, name: str, settings: dict[str, Any]) -> several.Engine:
                return self._engine(model, kvtier(sockets[node], role, load_if_faster=False, **settings), name, self.gpus[node], 1)

            self.has_failed |= not apart(start, [client.counters for client in clients], self.note, self._lens, self.reps)

    def prefill_decode_nixl(self) -> None:
        """As `prefill_decode`, with vLLM's NIXL connector and without a daemon."""
        with several.model_of(self.tiny) as model:

            def start(number: int, name: str) -> several.Engine:
                port = {"VLLM_NIXL_SIDE_CHANNEL_PORT": str(process.free_port())}
                return self._engine(model, NIXL, name, self.gpus[number], 1, port)

            self.has_failed |= not apart_by_nixl(start, self.note, self._lens, self.reps)

    def _starter(self, model: Path, settings: dict[str, Any]) -> Callable[[str, int, str], several.Engine]:
        kv = kvtier(self.work / "sock", **settings)
        return lambda gpus, ranks, name: self._engine(model, kv, name, gpus, ranks)

    def _engine(
        self, model: Path, kv: dict[str, Any], name: str, gpus: str, ranks: int, environment: dict[str, str] | None = None
    ) -> several.Engine:
        return several.Engine(
            model, kv, self.file(name, ".log"), gpus=gpus, ranks=ranks, tokens=max(self._lens), tiny=self.tiny, logging=self.logging,
            environment=environment,
        )  # fmt: skip

    @property
    def _lens(self) -> list[int]:
        return [int(tokens) for tokens in self.lens.split(",")]

    def ssd(self) -> None:
        """Restores after all blocks went to SSD, and the memory was given up."""
        shutil.rmtree(self.work / "ssd", ignore_errors=True)
        daemon = self.daemon("kvtierd-before-ssd", "10GiB", "16GiB")
        try:
            self.ttft("kvtier-before-ssd", kvtier(self.work / "sock"), "8192")
            begun = time.monotonic()
            drained = subprocess.run(
                [sys.executable, "-c", _FLUSH, str(self.work / "sock")], capture_output=True, text=True, timeout=60
            )
            self.note("drain", seconds=time.monotonic() - begun, said=(drained.stdout + drained.stderr)[-300:])
        finally:
            daemon.stop()
        daemon = self.daemon("kvtierd-ssd", "10GiB", "16GiB")
        try:
            self.ttft("kvtier-from-ssd", kvtier(self.work / "sock"), "8192")
        finally:
            daemon.stop()


# A namespace is flushed by who knows its properties; the daemon's own table has them.
_FLUSH = """
import sys, time
from kvtier import Client
with Client(sys.argv[1], timeout=50) as client:
    before = client.counters()
    while True:
        counters = client.counters()
        if counters["ssd_slots_in_flight"] == 0 and counters["ssd_slots_resident"] >= counters["host_slots_resident"]:
            break
        time.sleep(0.2)
    print({name: counters[name] for name in ("host_slots_resident", "ssd_slots_resident", "ssd_written_bytes")})
"""


PARTS = ("link", "none", "offloading", "lmcache", "kvtier", "pairs", "encodings", "layers", "layers_graphs", "batches", "batches_eager", "ssd")
PARTS_OF_TWO = ("ranks", "sharing", "prefill_decode", "prefill_decode_nixl")
"""that need two GPUs"""


def main(words: list[str] | None = None) -> int:
    """The program; returns its exit code: 1 where a part or an engine failed, 2 for wrong usage."""
    parser = Arguments(prog="run")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lens", default="8192,32768")
    parser.add_argument(
        "--only", type=some_of(PARTS + PARTS_OF_TWO, again=True), default=list(PARTS),
        help=f"in this order; one may come again; {', '.join(PARTS_OF_TWO)} need two GPUs and come only where they are named",
    )  # fmt: skip
    parser.add_argument("--gpus", default="0,1", help="of the prefill engine and the decode engine; 0,0: both on one GPU")
    parser.add_argument("--reps", type=whole, default=5, help="prompts of each length, of whose times the median is taken")
    parser.add_argument("--host", default="40GiB", help="kvtier's memory: as much as all prompts take, and twice 33,000 tokens")
    parser.add_argument("--tiny", action="store_true", help="of the parts with two GPUs: a model for a processor, to try the program")
    arguments = parser.parse_args(words)
    if len(arguments.gpus.split(",")) != 2:
        parser.error(f"--gpus is {arguments.gpus}, expected two numbers with a comma between")
    return run(Runs, arguments)


if __name__ == "__main__":
    run_tool(main)
