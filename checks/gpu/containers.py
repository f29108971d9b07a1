"""The daemon with a real GPU in the surroundings of a container, and this process as the engine outside of it.

Started by "run containers" in the folder that scripts/gpu-check packs. Needs root, CUDA and torch. The daemon has an IPC, a PID and a network namespace and a
/dev/shm of its own, and another user. Both processes share only the folder of the socket. Blocks of memory of both kinds must come back right.
"""

import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from kvtier_testing import process

from checks.gpu.namespaces import SURROUNDINGS
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool
from kvtier import Client, Status

USER = 10001
BLOCKS, LAYERS = 256, 16
CHECKED = ("same namespaces", "container: other IPC, PID, network, /dev/shm", "container, other user")
# Kinds of memory, each with torch's setting. Memory of expandable segments passes as descriptors.
KINDS = {"cudaMalloc": "expandable_segments:False", "expandable segments": "expandable_segments:True"}


@contextmanager
def daemon(sockets: Path, surroundings: list[str]) -> Iterator[None]:
    """A daemon in these surroundings, until the block ends."""
    # Libraries are unpacked into the temporary folder, which users can't share.
    program = [
        *surroundings, str(ROOT / "runtime/bin/java"), "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "-XX:+UseSerialGC",
        "-Xmx512m", "-XX:-UsePerfData", f"-Djava.io.tmpdir={sockets}", "-cp", str(ROOT / "lib/*"), "io.kvtier.daemon.Kvtierd",
    ]  # fmt: skip
    settings = {"host.bytes": "2GiB", "host.keep": 0, "ssd.bytes": 0, "grpc.enabled": "false", "http.enabled": "false"}
    started, _ = process.start(process.command_of(program, sockets / "kvtier.sock", settings), sockets / "log", SystemExit)
    try:
        yield
    finally:
        # unshare ignores SIGTERM, and takes the daemon along when it is killed.
        started.kill()
        process.stop(started)


def exchange(sockets: Path, kind: str) -> str:
    """Puts blocks behind an event and gets them back; says how long."""
    import kvtier.torch as ktorch

    torch.cuda.empty_cache()
    torch.cuda.memory._set_allocator_settings(KINDS[kind])
    tensors: list[Any] = [torch.empty(2, BLOCKS, 16, 8, 128, device="cuda", dtype=torch.bfloat16).normal_() for _ in range(LAYERS)]
    half = BLOCKS // 2
    keys = [f"{kind}{number}".encode().ljust(32, b"\0")[:32] for number in range(half)]
    with Client(sockets / "kvtier.sock", name="containers", timeout=60) as client:
        namespace = client.namespace(f"containers/{kind}", block_bytes=LAYERS * 2 * 16 * 8 * 128 * 2)
        with ktorch.register(namespace, tensors, block_axes=1) as region:
            after = torch.cuda.Event()
            torch.cuda._sleep(50_000_000)
            after.record()
            begun = time.perf_counter()
            putting = region.put(keys, range(half), after=after)
            given = time.perf_counter() - begun
            if set(putting.wait(60)) != {Status.OK}:
                return f"put: {putting.wait(0)[:2]}"
            if set(region.get(keys, range(half, 2 * half)).wait(60)) != {Status.OK}:
                return "get failed"
            right = all(torch.equal(tensor[:, :half], tensor[:, half:]) for tensor in tensors)
            events = region._region.takes_events
    return f"{'right' if right else 'WRONG BYTES'}; events are {'opened' if events else 'not opened'}; the put returned after {given * 1e3:.1f} ms"


def main() -> int:
    Arguments(prog="gpu-check containers", description=__doc__).parse_args()
    failed = 0
    warnings.simplefilter("ignore", FutureWarning)
    for name in CHECKED:
        words = SURROUNDINGS[name]
        sockets = Path(f"/run/kvtier-check-{os.getpid()}")
        sockets.mkdir()
        os.chown(sockets, USER if "user" in name else 0, USER if "user" in name else 0)
        surroundings = [*words[:1], "--kill-child", *words[1:]] if words else []
        try:
            with daemon(sockets, surroundings):
                for kind in KINDS:
                    said = exchange(sockets, kind)
                    failed += not said.startswith("right")
                    print(f"{name}, {kind}: {said}", flush=True)
        finally:
            shutil.rmtree(sockets)
    return 1 if failed else 0


if __name__ == "__main__":
    run_tool(main)
