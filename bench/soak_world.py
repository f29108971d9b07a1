"""All that the soak runs: a daemon with three tiers, its S3 server, its disk, wires that can lie, and clients."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from s3_server import BUCKET, BadDay, S3Server, free_port, java_home
from soak_clients import CALL_TIMEOUT_S, Stalls, Work
from soak_clock import Clock
from soak_content import Space
from soak_disk import make_disk
from soak_oracle import Account
from torture_daemon import REPOSITORY, Daemon

MIB = 1 << 20
DISK_BYTES = 176 * MIB
"""A little more than the SSD tier takes of it."""

TENANTS = ("blue", "green")
LIVE = """\
host: {{policy: {host}}}
ssd: {{policy: {ssd}, scrub_bytes_per_second: {scrub}MiB}}
log: {{level: {level}}}
tenants:
  - {{name: blue, host_bytes: 16MiB, ssd_bytes: 64MiB, weight: 2}}
  - {{name: green, host_bytes: 16MiB, ssd_bytes: 64MiB}}
"""


class World:
    """One of each, in a folder."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.folder = folder
        self.seed = seed
        self.stalls = Stalls()
        self.garbled_until = 0.0
        self.reads_fail_until = 0.0
        self.ended_by_itself: list[str] = []
        self.is_ready = False
        self.life = 0
        self.began = 0.0
        self.server = S3Server(folder / "s3")
        self.disk = make_disk(folder / "disk", DISK_BYTES)
        self.clock = Clock(folder)
        self.s3_wire = BadDay(self.server.address)
        grpc_port, self.http_port = free_port(), free_port()
        self.grpc_wire = BadDay(("127.0.0.1", grpc_port))
        self.configuration = folder / "kvtier.yaml"
        self.write_configuration()
        tokens = folder / "tokens"
        self.tokens = {name: self._token(tokens, name) for name in (*TENANTS, "admin")}
        self.daemon = Daemon(
            folder,
            [self.disk.folder / "ssd", folder / "ssd1"],
            self.configuration,
            host__bytes="64MiB",
            ssd__bytes="256MiB",
            limits__blocks="65536",
            grpc__enabled="true",
            grpc__port=str(grpc_port),
            http__enabled="true",
            http__port=str(self.http_port),
            access__tokens=str(tokens),
            object__store="s3",
            object__s3__endpoint=self.s3_wire.endpoint,
            object__s3__bucket=BUCKET,
            object__directory=str(folder / "object"),
            object__absent_for="500ms",
            object__breaker_open="200ms",
            object__breaker_open_max="2s",
            object__load_timeout="3s",
            object__store_timeout="5s",
        )
        self.daemon.environment = self.clock.environment
        self.works: list[Work] = []

    def write_configuration(self, host: str = "auto", ssd: str = "auto", scrub: int = 16, level: str = "info") -> None:
        """The keys that a reload can change, and the tenants."""
        self.configuration.write_text(LIVE.format(host=host, ssd=ssd, scrub=scrub, level=level))

    def _token(self, file: Path, name: str) -> str:
        """Makes a token: of a tenant, or of the administrator."""
        whose = ("--role", "admin") if name == "admin" else ("--role", "write", "--tenant", name)
        made = self.kvtier("token", "make", "--name", name, *whose, "--file", str(file))
        if made.returncode != 0:
            raise RuntimeError(f"no token could be made: {made.stderr}")
        return next(word for word in made.stdout.split() if word.startswith("kvt_"))

    @staticmethod
    def kvtier(*words: str) -> subprocess.CompletedProcess[str]:
        """The operator's command."""
        return subprocess.run([str(REPOSITORY / "scripts" / "kvtier"), *words], capture_output=True, text=True, check=False, timeout=120)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The operator's command, for this daemon."""
        return self.kvtier(*words, "--socket", str(self.daemon.socket_path))

    def start(self) -> None:
        """Starts everything, the clients last."""
        self.server.start()
        self.start_daemon()
        java = f"{java_home()}/bin/java"
        jar = next((REPOSITORY / "bench" / "target").glob("kvtier-bench-*.jar"))
        classes = f"{jar}:{REPOSITORY}/bench/target/lib/*"
        hand = [java, "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--enable-native-access=ALL-UNNAMED"]
        hand += ["-cp", classes, "io.kvtier.bench.soak.SoakHand"]
        large, small, odd = Space("large", 96 << 10), Space("small", 16 << 10), Space("odd", 40_000)
        socket_path = str(self.daemon.socket_path)
        python = [sys.executable, str(REPOSITORY / "bench" / "soak_hand.py"), socket_path, str(CALL_TIMEOUT_S), self.seed]
        self._client("python-1", python, [Account("python-1", large, 900, 0), Account("python-1", odd, 400, 0)])
        self._client("python-2", python, [Account("python-2", small, 1500, 0), Account("python-2", large, 300, 1 << 30)])
        local = [*hand, "local", socket_path, "-", str(CALL_TIMEOUT_S), self.seed]
        self._client("java", local, [Account("java", small, 800, 1 << 30), Account("java", odd, 800, 1 << 30)])
        for tenant in TENANTS:
            os.environ[f"KVTIER_SOAK_{tenant}"] = self.tokens[tenant]
            address = f"127.0.0.1:{self.grpc_wire.server_address[1]}"
            remote = [*hand, "grpc", address, f"KVTIER_SOAK_{tenant}", str(CALL_TIMEOUT_S), self.seed]
            accounts = [Account(f"grpc-{tenant}", Space(f"{tenant}-{one.name}", one.block_bytes), 1100, 0) for one in (large, small)]
            self._client(f"grpc-{tenant}", remote, accounts, self.grpc_lies)
        for work in self.works:
            work.start()

    def _client(self, name: str, command: list[str], accounts: list[Account], garbled: Callable[[], bool] = lambda: False) -> None:
        spaces = [str(account.space) for account in accounts]
        log = self.folder / f"{name}.log"
        self.works.append(Work(name, [*command, *spaces], accounts, log, self.stalls, self.seed, garbled, self.reads_fail))

    def grpc_lies(self) -> bool:
        """Whether bytes of gRPC are or were just garbled."""
        return time.monotonic() < self.garbled_until

    def reads_fail(self) -> bool:
        """Whether the disk fails or has just failed."""
        return time.monotonic() < self.reads_fail_until

    def start_daemon(self, **changed: str) -> None:
        self.life += 1
        self.daemon.spawn(**changed)
        self.daemon.wait_ready()
        self.began = time.monotonic()
        self.is_ready = True

    def end_daemon(self, number: int = signal.SIGKILL) -> None:
        self.is_ready = False
        self.daemon.kill(number)

    def look_after(self) -> None:
        """An error where a client does not work any more; the daemon is seen to."""
        for work in self.works:
            if work.failure is not None:
                raise RuntimeError(f"client {work.name} failed: {work.failure}") from work.failure
        self.look_after_daemon()

    def look_after_daemon(self) -> None:
        """Starts it again where it has ended without being told to, and notes that."""
        if not self.daemon.is_alive():
            self.ended_by_itself.append(self.daemon.log_end()[-1500:])
            self.end_daemon()
            self.start_daemon()

    def http(self, path: str) -> bytes:
        """What the daemon answers to an administrator's request."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}{path}", headers={"Authorization": f"Bearer {self.tokens['admin']}"})
        with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
            body: bytes = answer.read()
            return body

    def troubles(self) -> Any:
        """What the daemon says is wrong with its parts, None while it says nothing."""
        try:
            return json.loads(self.http("/readyz")).get("troubles", [])
        except (OSError, ValueError):
            return None

    def reload(self) -> bool:
        """Asks a daemon that is ready to read its configuration again; whether there is one."""
        if self.is_ready:
            self.daemon.send_signal(signal.SIGHUP)
        return self.is_ready

    def accounts(self) -> list[tuple[Work, Account]]:
        return [(work, account) for work in self.works for account in work.accounts]

    def close(self) -> None:
        for work in self.works:
            work.end()
        self.daemon.end()
        self.server.kill()
        for wire in (self.s3_wire, self.grpc_wire):
            wire.shutdown()
            wire.server_close()
        self.disk.close()
