"""A daemon whose GPU is files of shared memory, and regions in them: `FileGpuDaemon` in the daemon's tests."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from kvtier_testing.daemon import Daemon, in_a_folder

from checks.shared.checkout import ROOT
from kvtier import Client
from kvtier.device import DeviceRegion, Part, RegionSpec

UUID = "GPU-f11e0000-0000-0000-0000-000000000001"
OTHER_UUID = "GPU-f11e0000-0000-0000-0000-000000000002"
"""its sibling, whose files' names end with other"""


def handle_of(path: Path) -> bytes:
    """The IPC handle of a file."""
    name = str(path).encode()
    assert len(name) <= 64
    return name.ljust(64, b"\0")


class GpuDaemon(Daemon):
    """A daemon with such a GPU, all of whose copies take a while."""

    def __init__(self, folder: Path, delay_ms: int = 0) -> None:
        super().__init__(folder)
        # Handles hold short paths only.
        self.gpu = Path(tempfile.mkdtemp(prefix="kvg", dir="/dev/shm"))
        self.delay_ms = delay_ms

    def program(self) -> list[str]:
        classes = ROOT / "daemon" / "target" / "test-classes"
        if not (classes / "io" / "kvtier" / "daemon" / "FileGpuDaemon.class").exists():
            pytest.skip("the daemon's tests are not compiled: run scripts/test, or Maven")
        script = (
            f'. "{ROOT}/scripts/lib.sh"; find_jdk25; build_java; '
            f'exec "$JAVA_HOME/bin/java" "${{DAEMON_FLAGS[@]}}" -Xmx512m -XX:TieredStopAtLevel=1 '
            f"-Dkvtier.gpu.folder={self.gpu} -Dkvtier.gpu.delay_ms={self.delay_ms} "
            f'-cp "{classes}:$(class_path daemon)" io.kvtier.daemon.FileGpuDaemon "$@"'
        )
        return ["bash", "-c", script, "kvtierd"]

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.gpu, ignore_errors=True)


@contextmanager
def gpu_daemon(delay_ms: int = 0, **settings: str) -> Iterator[GpuDaemon]:
    with in_a_folder(lambda folder: GpuDaemon(folder, delay_ms)) as made:
        made.start(**settings)
        yield made


class Tensors:
    """KV tensors of an engine: `[2, blocks, tokens, heads, dim]` a layer, in one file, with a gap before each."""

    GAP = 4096

    def __init__(
        self, daemon: GpuDaemon, name: str, *, layers: int = 4, blocks: int = 16, tokens: int = 4, heads: int = 2,
        dim: int = 32, seed: int = 0,
    ) -> None:  # fmt: skip
        self.layers, self.blocks, self.tokens = layers, blocks, tokens
        self.shape = (2, blocks, tokens, heads, dim)
        self.layer_bytes = 2 * int(np.prod(self.shape))
        self.path = daemon.gpu / name
        total = layers * (self.layer_bytes + self.GAP)
        self.memory = np.memmap(self.path, dtype=np.uint8, mode="w+", shape=(total,))
        self.memory[:] = np.random.default_rng(seed).integers(0, 256, total, dtype=np.uint8)
        self.layer = [
            self.memory[at : at + self.layer_bytes].view(np.uint16).reshape(self.shape)
            for at in (self.offset(i) for i in range(layers))
        ]

    def offset(self, layer: int) -> int:
        return self.GAP + layer * (self.layer_bytes + self.GAP)

    @property
    def block_bytes(self) -> int:
        return self.layers * self.layer_bytes // self.blocks

    def strides(self) -> list[int]:
        return [int(np.prod(self.shape[i + 1 :])) for i in range(len(self.shape))]

    def spec(self, **changed: object) -> RegionSpec:
        values: dict[str, object] = {
            "device": OTHER_UUID if self.path.name.endswith("other") else UUID,
            "layers": self.layers,
            "blocks": self.blocks,
            "block_tokens": self.tokens,
            "parts": [Part("CBNHD", self.shape, self.strides(), 2)],
            "tensors": [(handle_of(self.path), self.offset(i)) for i in range(self.layers)],
        }
        values.update(changed)
        return RegionSpec(**values)  # type: ignore[arg-type]

    def block(self, number: int, layers: range | None = None) -> bytes:
        """A block's bytes: layer by layer, keys before values."""
        chosen = range(self.layers) if layers is None else layers
        return b"".join(self.layer[i][:, number].tobytes() for i in chosen)

    def region(self, client: Client, namespace: str, **changed: object) -> DeviceRegion:
        return DeviceRegion(client.namespace(namespace, block_bytes=self.block_bytes), self.spec(**changed))


def keys_of(count: int, seed: int = 1) -> list[bytes]:
    return [seed.to_bytes(8, "little") + number.to_bytes(8, "little") for number in range(count)]
