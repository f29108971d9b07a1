"""All that the soak runs: a daemon with three tiers, its S3 server, its disk, wires that can lie, and clients."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kvtier_testing.process import free_port

from checks.shared.checkout import ROOT, class_path, java_home
from checks.shared.pulse import Pulse
from checks.shared.s3_server import BUCKET, BadDay, S3Server
from checks.soak import events as soak_events
from checks.soak.clients import CALL_TIMEOUT_S, Work
from checks.soak.clock import Clock
from checks.soak.content import Space
from checks.soak.disk import make_disk
from checks.soak.events import Follower, Trails
from checks.soak.excuses import taken_by
from checks.soak.oracle import Account
from checks.soak.spells import Spell, Spells, StoreWatch
from checks.torture.daemon import Daemon

MIB = 1 << 20
DISK_BYTES = 176 * MIB
"""A little more than the SSD tier takes."""

OBJECT_STORE_TIMEOUT_S = 6.0
OBJECT_OPEN_MAX_S = 2.0
"""How long an upload may take, and the longest rest that the daemon gives a store that fails."""

TENANTS = ("blue", "green")
LIVE = """\
host: {{policy: {host}}}
ssd: {{policy: {ssd}, scrub_bytes_per_second: {scrub}MiB}}
tenants:
  - {{name: blue, host_bytes: 16MiB, ssd_bytes: 64MiB, weight: 2}}
  - {{name: green, host_bytes: 16MiB, ssd_bytes: 64MiB}}
"""


class World:
    """One of each, in a folder."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.folder = folder
        self.seed = seed
        self.spells = Spells()
        self.damaged: set[bytes] = set()
        self.ended_by_itself: list[str] = []
        self.drops: dict[int, dict[str, int]] = {}
        self.is_ready = False
        self.life = 0
        self.began = 0.0
        self.works: list[Work] = []
        self._parts = contextlib.ExitStack()
        self.pulse = self._parts.enter_context(contextlib.closing(Pulse()))
        try:
            self._make()
        except BaseException:
            self._parts.close()
            raise

    def _make(self) -> None:
        folder = self.folder
        self.server = S3Server(folder / "s3")
        self._parts.callback(self.server.kill)
        self.disk = make_disk(folder / "disk", DISK_BYTES)
        self._parts.callback(self.disk.close)
        self.clock = Clock(folder)
        self.s3_wire = self._wire(self.server.address)
        grpc_port, self.http_port, events_port, replay_port = (free_port() for _ in range(4))
        self.grpc_wire = self._wire(("127.0.0.1", grpc_port))
        self.configuration = folder / "kvtier.yaml"
        self.write_configuration()
        tokens = folder / "tokens"
        self.tokens = {name: self._token(tokens, name) for name in (*TENANTS, "admin")}
        replay_endpoint = f"tcp://127.0.0.1:{replay_port}"
        self.daemon = Daemon(
            folder,
            [self.disk.folder / "ssd", folder / "ssd1"],
            self.configuration,
            host__bytes="64MiB",
            ssd__bytes="256MiB",
            limits__blocks="65536",
            limits__annotation_bytes="16MiB",
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
            object__breaker_open_max=f"{OBJECT_OPEN_MAX_S:g}s",
            object__load_timeout="3s",
            object__store_timeout=f"{OBJECT_STORE_TIMEOUT_S:g}s",
            log__burst_time="0",
            events__endpoint=f"tcp://127.0.0.1:{events_port}",
            events__replay_endpoint=replay_endpoint,
            **soak_events.SETTINGS,
        )
        # A heap that may grow would grow.
        self.daemon.environment = self.clock.environment | {"KVTIERD_JAVA_OPTS": "-Xmx512m"}
        self._parts.callback(self.daemon.end)
        self.trails = Trails()
        self.follower = Follower(replay_endpoint, self.trails)

    def _wire(self, server: tuple[str, int]) -> BadDay:
        wire = BadDay(server)
        self._parts.callback(wire.server_close)
        self._parts.callback(wire.shutdown)
        return wire

    def write_configuration(self, host: str = "auto", ssd: str = "auto", scrub: int = 16) -> None:
        """The keys that a reload can change, and the tenants: at once, for a daemon that starts meanwhile reads it, too."""
        aside = self.configuration.with_suffix(".new")
        aside.write_text(LIVE.format(host=host, ssd=ssd, scrub=scrub))
        os.replace(aside, self.configuration)

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
        return subprocess.run([str(ROOT / "scripts" / "kvtier"), *words], capture_output=True, text=True, check=False, timeout=120)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The operator's command, for this daemon."""
        return self.kvtier(*words, "--socket", str(self.daemon.socket_path))

    def start(self) -> None:
        """Starts everything, the clients last."""
        self.server.start()
        self.follower.start()
        self._parts.callback(self.follower.close)
        self.daemon.log.touch()
        watch = StoreWatch(self.daemon.log, self.spells)
        watch.start()
        self._parts.callback(watch.close)
        self.start_daemon()
        java = f"{java_home()}/bin/java"
        classes = class_path("bench")
        hand = [java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--enable-native-access=ALL-UNNAMED"]
        hand += ["-cp", classes, "io.kvtier.bench.soak.SoakHand"]
        large, small, odd = Space("large", 96 << 10), Space("small", 16 << 10), Space("odd", 40_000)
        socket_path = str(self.daemon.socket_path)
        python = [sys.executable, "-m", "checks.soak.hand", socket_path, str(CALL_TIMEOUT_S), self.seed]
        self._client("python-1", python, [self._account("python-1", large, 900, 0), self._account("python-1", odd, 400, 0)])
        self._client("python-2", python, [self._account("python-2", small, 1500, 0), self._account("python-2", large, 300, 1 << 30)])
        local = [*hand, "local", socket_path, "-", str(CALL_TIMEOUT_S), self.seed]
        self._client("java", local, [self._account("java", small, 800, 1 << 30), self._account("java", odd, 800, 1 << 30)])
        for tenant in TENANTS:
            os.environ[f"KVTIER_SOAK_{tenant}"] = self.tokens[tenant]
            address = f"127.0.0.1:{self.grpc_wire.server_address[1]}"
            remote = [*hand, "grpc", address, f"KVTIER_SOAK_{tenant}", str(CALL_TIMEOUT_S), self.seed]
            name = f"grpc-{tenant}"
            accounts = [self._account(name, Space(f"{tenant}-{one.name}", one.block_bytes), 1100, 0) for one in (large, small)]
            self._client(name, remote, accounts, is_remote=True)
        for work in self.works:
            work.start()

    def _account(self, client: str, space: Space, blocks: int, first: int) -> Account:
        return Account(client, space, blocks, first, self.seed, self.damaged)

    def _client(self, name: str, command: list[str], accounts: list[Account], is_remote: bool = False) -> None:
        spaces = [str(account.space) for account in accounts]
        log = self.folder / f"{name}.log"
        work = Work(name, [*command, *spaces], accounts, log, self.pulse, self.seed, self._grpc_lied if is_remote else lambda since: False)
        self._parts.callback(work.end)
        self.works.append(work)

    def _grpc_lied(self, since: float) -> bool:
        return self.spells.was_on(Spell.WIRE_LIES, since)

    @contextlib.contextmanager
    def clients_at_rest(self) -> Iterator[None]:
        """Nobody asks for anything meanwhile, but for who does it in their place."""
        self.pause_clients()
        yield
        for work in self.works:
            work.go_on()

    def pause_clients(self) -> None:
        for work in self.works:
            work.pause()

    def damage(self, key: bytes) -> None:
        """Notes whose copy is about to be damaged where the daemon can't prevent it."""
        self.damaged.add(key)

    def taken_by(self, key: bytes) -> str | None:
        """The excuse for a block that is not there; None if no fault explains it."""
        return taken_by(self.spells, self.trails, key)

    def silent_s(self) -> list[float]:
        """For how long the daemon said, each time, that the store does not answer, while nothing was done to that."""
        return self.spells.alone_s(Spell.STORE_SILENT, Spell.STORE_AWAY)

    def start_daemon(self, **changed: str) -> None:
        self.life += 1
        self.follower.begin_life()
        self.spells.end(Spell.STORE_SILENT, 0)
        self.daemon.spawn(**changed)
        self.daemon.wait_ready()
        self.began = time.monotonic()
        self.is_ready = True

    def end_daemon(self, number: int = signal.SIGKILL) -> None:
        """Ends it, and notes where somebody else has done so before."""
        if self.is_ready and not self.daemon.is_alive():
            self.ended_by_itself.append(self.daemon.log_end()[-1500:])
        elif self.is_ready:
            self.note_drops()
        self.is_ready = False
        self.daemon.kill(number)

    def note_drops(self) -> None:
        """Notes what the daemon says of blocks that it dropped; one that does not answer has said it before."""
        life = self.life
        try:
            drops = json.loads(self.http("/api/v1/stats"))["drops"]
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return
        if life == self.life:
            noted = self.drops.setdefault(life, {})
            noted.update({reason: max(count, noted.get(reason, 0)) for reason, count in drops.items()})

    def dropped(self) -> Counter[str]:
        """The blocks that the daemons say they have dropped, by the reason, as far as they could still say it."""
        return sum((Counter(drops) for drops in list(self.drops.values())), Counter())

    def look_after(self) -> None:
        """An error where a client or the follower does not work any more; the daemon is seen to."""
        for work in self.works:
            work.require_well()
        if self.follower.failure is not None:
            raise RuntimeError(f"the follower of the daemon's events failed: {self.follower.failure!r}") from self.follower.failure
        self.look_after_daemon()

    def look_after_daemon(self) -> None:
        """Starts it again where it has ended without being told to, and notes that."""
        if not self.daemon.is_alive():
            self.end_daemon()
            self.start_daemon()

    def http(self, path: str) -> bytes:
        """The daemon's answer to an administrator's request."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}{path}", headers={"Authorization": f"Bearer {self.tokens['admin']}"})
        with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
            body: bytes = answer.read()
            return body

    def reload(self) -> bool:
        """Asks a daemon that is ready to read its configuration again; whether there is one."""
        return self.is_ready and self.daemon.send_signal(signal.SIGHUP)

    def accounts(self) -> list[tuple[Work, Account]]:
        return [(work, account) for work in self.works for account in work.accounts]

    def close(self) -> None:
        """Takes everything away, whatever of it fails to go."""
        self._parts.close()
