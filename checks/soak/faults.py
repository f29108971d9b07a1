"""The faults of the soak, one at a time. Each fault repairs its damage at the end, where that is possible."""

import contextlib
import os
import random
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checks.shared.raw_session import Raw, fuzzed
from checks.soak.excuses import SILENT_MAX_S
from checks.soak.spells import Spell
from checks.soak.world import OBJECT_OPEN_MAX_S, OBJECT_STORE_TIMEOUT_S, World
from kvtier import _protocol as protocol
from kvtier._protocol import Verb

_PAGE_BYTES = 4096
_SLOT_MAGIC = b"KVTIERBK"
_SLOT_KEY_OFFSET = 48
_SLOT_STORED_BYTES_OFFSET = 96
_SLOTS_DAMAGED_MAX = 3
_OBJECT_MAGIC = b"KVTIEROB"
_OBJECT_KEY_OFFSET = 64
SETTLES_S = 2.0
"""Seconds after a fault in which answers may still show it."""
STORE_SETTLES_S = OBJECT_STORE_TIMEOUT_S + OBJECT_OPEN_MAX_S + SETTLES_S
"""Seconds after a fault of the object store in which it still shows. The last upload may fail this late, and the daemon then rests the store."""
REFUSAL_S = 10.0
"""Seconds after a refusal in which a block is not offered to the object store again."""
_DENIED, _PRECONDITION_FAILED = 403, 412


@dataclass(frozen=True)
class Fault:
    """Something to break.

    Attributes:
        weight: how often, against the others.
        kills_daemon: whether the daemon is another afterwards.
    """

    name: str
    weight: int
    strike: Callable[[World, random.Random], None]
    kills_daemon: bool = False


def _end_daemon(world: World, number: int = signal.SIGKILL) -> None:
    """Not while blocks are dropped by right: a daemon that is killed can't tell of the last of them."""
    _wait_until_nothing_is_dropped(world)
    world.end_daemon(number)


def _wait_until_nothing_is_dropped(world: World) -> None:
    world.spells.wait_until_over(Spell.STORE_AWAY, Spell.DISK_FAILS)
    # One that says for longer that the store does not answer is a finding, and is not waited for.
    world.spells.wait_until_over(Spell.STORE_SILENT, at_most_s=SILENT_MAX_S)


def _kill_daemon(world: World, dice: random.Random) -> None:
    _end_daemon(world)
    time.sleep(dice.choice((0.0, 0.0, 1.0)))
    world.start_daemon(**_settings(dice))


def _kill_daemon_and_memory(world: World, dice: random.Random) -> None:
    """Under load, or with all that happened told of by events: then more is known to be on SSD."""
    rests = dice.random() < 0.5
    _wait_until_nothing_is_dropped(world)
    with world.clients_at_rest() if rests else contextlib.nullcontext():
        is_told = rests and world.follower.catch_up()
        _end_daemon(world)
        world.daemon.kill_keeper()
        for _, account in world.accounts():
            account.memory_goes(lambda key: world.trails.is_only_in_memory(key, is_told))
        world.start_daemon(**_settings(dice))


def _stop_daemon(world: World, dice: random.Random) -> None:
    _end_daemon(world, signal.SIGTERM)
    world.start_daemon(**_settings(dice))


def _settings(dice: random.Random) -> dict[str, str]:
    return {
        "ssd__admission": dice.choice(("evicted", "all")),
        "ssd__engine": dice.choice(("auto", "auto", "pread")),
        "object__admission": dice.choice(("evicted", "evicted", "all")),
    }


def _freeze_daemon(world: World, dice: random.Random) -> None:
    world.daemon.send_signal(signal.SIGSTOP)
    time.sleep(dice.uniform(0.2, 2.0))
    world.daemon.send_signal(signal.SIGCONT)


def _kill_client(world: World, dice: random.Random) -> None:
    dice.choice(world.works).kill()


def _kill_s3(world: World, dice: random.Random) -> None:
    with world.spells.during(Spell.STORE_AWAY, STORE_SETTLES_S):
        world.server.kill()
        time.sleep(dice.uniform(0.0, 2.0))
        world.server.start()


def _s3(mode: str | int) -> Callable[[World, random.Random], None]:
    def strike(world: World, dice: random.Random) -> None:
        settles_s = STORE_SETTLES_S + (REFUSAL_S if mode == _DENIED else 0)
        with contextlib.ExitStack() as spells:
            spells.enter_context(world.spells.during(Spell.STORE_AWAY, settles_s))
            if mode == _PRECONDITION_FAILED:
                # The store answers an upload with: the object is there already.
                spells.enter_context(world.spells.during(Spell.STORE_LIES, STORE_SETTLES_S))
            world.s3_wire.mode = mode
            time.sleep(dice.uniform(0.5, 4.0))
            world.s3_wire.mode = "pass"

    return strike


def _grpc(mode: str) -> Callable[[World, random.Random], None]:
    def strike(world: World, dice: random.Random) -> None:
        # A connection that ends, or from which nothing comes, turns nothing.
        lies = mode.startswith("corrupt")
        with world.spells.during(Spell.WIRE_LIES, SETTLES_S) if lies else contextlib.nullcontext():
            world.grpc_wire.mode = mode
            time.sleep(dice.uniform(0.5, 3.0))
            world.grpc_wire.mode = "pass"
            world.grpc_wire.break_connections()

    return strike


def _disk_full(world: World, dice: random.Random) -> None:
    end = time.monotonic() + dice.uniform(1.0, 4.0)
    # Space that the daemon frees is filled, too.
    while time.monotonic() < end:
        world.disk.fill()
        time.sleep(0.1)
    world.disk.free()


def _disk_eio(world: World, dice: random.Random) -> None:
    with world.spells.during(Spell.DISK_FAILS, SETTLES_S):
        world.disk.fail()
        time.sleep(dice.uniform(0.3, 3.0))
        world.disk.mend()


def _disk_slow(world: World, dice: random.Random) -> None:
    world.disk.slow(world.daemon.pid, dice.choice((1 << 20, 4 << 20)))
    time.sleep(dice.uniform(1.0, 4.0))
    world.disk.fast()


def _damage_disk(world: World, dice: random.Random) -> None:
    """Turns bits in slots while the daemon stands still, so that nothing else is written back with them."""
    world.daemon.send_signal(signal.SIGSTOP)
    try:
        time.sleep(0.05)  # for transfers that are the kernel's already
        files = [*world.disk.folder.glob("ssd/slots-*.dat"), *world.folder.glob("ssd1/slots-*.dat")]
        # Most may be empty still.
        damaged = 0
        for file in dice.sample(files, len(files)):
            damaged += _damage_slot(world, file, dice)
            if damaged == _SLOTS_DAMAGED_MAX:
                break
    finally:
        world.daemon.send_signal(signal.SIGCONT)


def _damage_slot(world: World, file: Path, dice: random.Random) -> bool:
    """One of the file's; False: it has none."""
    with file.open("r+b") as slots:
        data = slots.read()
        places = [at for at in range(0, len(data), _PAGE_BYTES) if data.startswith(_SLOT_MAGIC, at)]
        if not places:
            return False
        at = dice.choice(places)
        world.damage(data[at + _SLOT_KEY_OFFSET : at + _SLOT_KEY_OFFSET + 32])
        stored = struct.unpack_from("<I", data, at + _SLOT_STORED_BYTES_OFFSET)[0]
        place = at + dice.choice((_SLOT_KEY_OFFSET, _PAGE_BYTES + dice.randrange(max(1, stored))))
        slots.seek(place)
        slots.write(bytes([data[place] ^ 1 << dice.randrange(8)]))
        slots.flush()
        os.fsync(slots.fileno())
        os.posix_fadvise(slots.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def _damage_object(world: World, dice: random.Random) -> None:
    objects = world.server.objects()
    for file in dice.sample(objects, min(len(objects), 3)):
        try:
            data = bytearray(file.read_bytes())
            if not data.startswith(_OBJECT_MAGIC):
                continue
            world.damage(bytes(data[_OBJECT_KEY_OFFSET : _OBJECT_KEY_OFFSET + 32]))
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            with file.open("r+b") as object_file:
                object_file.write(data)
        except FileNotFoundError:
            pass  # deleted in the meantime


def _hostile_client(world: World, dice: random.Random) -> None:
    end = time.monotonic() + dice.uniform(0.3, 2.0)
    while time.monotonic() < end:
        try:
            raw = Raw(world.daemon.socket_path)
        except (OSError, ValueError):
            continue  # refused, or the daemon is busy with others
        try:
            namespace = raw.register("hostile")
            for _ in range(dice.randrange(1, 60)):
                request = fuzzed(dice, namespace, [])
                # This session is root's and may clear the namespaces of others: cleared blocks would be no finding.
                if request[protocol.REQUEST_VERB_OFFSET] != Verb.CLEAR:
                    raw.offer(request)
            raw.socket.send(dice.randbytes(dice.randrange(64)))
        except (OSError, AssertionError):
            pass  # its session was ended, as it should be
        finally:
            raw.close()


def _clock_jump(world: World, dice: random.Random) -> None:
    world.clock.shift(dice.choice((-86_400, -3600, -5, 5, 3600, 86_400)))
    time.sleep(dice.uniform(0.5, 3.0))
    # Mostly back; else the clock stays wrong until the next jump, over starts of the daemon.
    if dice.random() < 0.7:
        world.clock.shift(0)


def _s3_faults() -> list[Fault]:
    modes: dict[str, str | int] = {
        "reset": "reset",
        "stall": "stall",
        "slow": "slow",
        "truncate": "truncate",
        "corrupt": "corrupt",
        "throttle": 503,
        "too_many": 429,
        "error": 500,
        "denied": _DENIED,
        "not_found": 404,
        "precondition": _PRECONDITION_FAILED,
    }
    return [Fault(f"s3_{name}", 2 if name in ("reset", "throttle", "corrupt") else 1, _s3(mode)) for name, mode in modes.items()]


FAULTS = [
    Fault("kill_daemon", 5, _kill_daemon, kills_daemon=True),
    Fault("kill_daemon_and_memory", 3, _kill_daemon_and_memory, kills_daemon=True),
    Fault("stop_daemon", 1, _stop_daemon, kills_daemon=True),
    Fault("freeze_daemon", 2, _freeze_daemon),
    Fault("kill_client", 8, _kill_client),
    Fault("kill_s3", 3, _kill_s3),
    *_s3_faults(),
    Fault("grpc_corrupt_answers", 2, _grpc("corrupt")),
    Fault("grpc_corrupt_requests", 2, _grpc("corrupt_requests")),
    Fault("grpc_reset", 2, _grpc("reset")),
    Fault("grpc_stall", 1, _grpc("stall")),
    Fault("disk_full", 2, _disk_full),
    Fault("disk_eio", 2, _disk_eio),
    Fault("disk_slow", 2, _disk_slow),
    Fault("disk_corrupt", 4, _damage_disk),
    Fault("object_corrupt", 3, _damage_object),
    Fault("hostile_client", 4, _hostile_client),
    Fault("clock_jump", 3, _clock_jump),
]


def missing_faults(world: World) -> dict[str, str]:
    """The faults that can't be had here, with the reasons."""
    missing = {f"disk_{name}": reason for name, reason in world.disk.missing.items()}
    if world.clock.missing is not None:
        missing["clock_jump"] = world.clock.missing
    return missing
