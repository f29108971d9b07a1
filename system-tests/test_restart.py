"""Blocks in memory and on SSD outlive the daemon, after kills and after orderly stops."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kvtier_testing import blocks
from kvtier_testing.daemon import Daemon, eventually

from checks.shared.checkout import ROOT
from kvtier import Client, Status

BLOCK_BYTES = 256 * 1024
# The host tier of the tests' daemon has 64 MiB: half of the blocks fit.
BLOCKS = 400


def key(number: int) -> bytes:
    return blocks.key("survivor", number)


def content(number: int) -> bytes:
    return blocks.block(key(number), BLOCK_BYTES)


def content_of_few_values(number: int) -> bytes:
    """Elements of two bytes, of which the upper ones are all the same."""
    values = bytearray(content(number))
    values[1::2] = bytes(BLOCK_BYTES // 2)
    return bytes(values)


class Survivor:
    """A daemon whose memory is kept, in a folder of its own, and one client's blocks."""

    def __init__(self, daemon: Daemon, keep: str) -> None:
        self.daemon = daemon
        self.content: Callable[[int], bytes] = content
        self.settings = {"host__keep": keep, "host__directory": str(daemon.folder / "state")}

    def start(self, **changed: str) -> None:
        self.daemon.start(**{**self.settings, **changed})

    def kill(self) -> None:
        self.daemon.kill()

    def keeper(self) -> int | None:
        """The process that holds the memory."""
        note = self.daemon.folder / "state" / "memory"
        if not note.exists():
            return None
        lines = dict(line.split("=", 1) for line in note.read_text().splitlines() if "=" in line)
        return int(lines["keeper"])

    def stats(self) -> dict[str, int]:
        run = subprocess.run(
            [str(ROOT / "scripts" / "kvtier"), "stats", "--json", "--socket", str(self.daemon.socket_path)],
            capture_output=True,
            text=True,
            check=True,
        )
        counters: dict[str, int] = json.loads(run.stdout)["counters"]
        return counters

    def put(self, numbers: range) -> None:
        with Client(self.daemon.socket_path, timeout=60) as client:
            namespace = client.namespace("survivor", block_bytes=BLOCK_BYTES, model="m")
            for number in numbers:
                assert namespace.put([key(number)], [self.content(number)]) == [Status.OK]

    def found(self, numbers: range) -> list[int]:
        """The blocks that are there; each is held to its content."""
        there = []
        with Client(self.daemon.socket_path, timeout=60) as client:
            namespace = client.namespace("survivor", block_bytes=BLOCK_BYTES, model="m")
            buffer = bytearray(BLOCK_BYTES)
            for number in numbers:
                if namespace.get([key(number)], buffer).statuses == [Status.OK]:
                    assert buffer == self.content(number), f"wrong bytes in block {number}"
                    there.append(number)
        return there


def damage(survivor: Survivor) -> None:
    """Turns a bit of the first slot on SSD, of a daemon that does not run."""
    with open(survivor.daemon.folder / "ssd" / "slots-0000.dat", "r+b") as file:
        file.seek(4096 + 100_000)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


@pytest.fixture
def survivor(stopped_daemon: Daemon) -> Iterator[Survivor]:
    made = Survivor(stopped_daemon, "1min")
    yield made
    stopped_daemon.stop()
    keeper = made.keeper()
    if keeper is not None:
        os.kill(keeper, signal.SIGKILL)


def test_kill_everythingAcceptedIsFoundAgain(survivor: Survivor) -> None:
    survivor.start()
    survivor.put(range(BLOCKS))
    survivor.kill()
    survivor.start()
    assert survivor.found(range(BLOCKS)) == list(range(BLOCKS))
    stats = survivor.stats()
    assert stats["found_host"] > 200
    assert stats["found_host"] + stats["found_ssd"] >= BLOCKS
    assert stats["corrupt"] == 0


def test_keeperIsKilled_anotherKeepsTheMemory_andTheNextStartFindsIt(survivor: Survivor) -> None:
    survivor.start(ssd__bytes="0")
    survivor.put(range(50))
    first = survivor.keeper()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: survivor.keeper() != first)
    assert eventually(lambda: survivor.stats()["keeper_restarts"] == 1)
    second = survivor.keeper()
    survivor.kill()
    survivor.start(ssd__bytes="0")
    assert survivor.found(range(50)) == list(range(50))
    assert survivor.stats()["found_host"] == 50
    assert survivor.keeper() not in (None, first, second)


def test_keeperIsKilledAndNoneCanFollow_theEndSaysThatNothingIsKept(survivor: Survivor) -> None:
    survivor.start(ssd__bytes="0")
    survivor.put(range(50))
    keeper = survivor.keeper()
    assert keeper is not None
    (survivor.daemon.folder / "state" / "memory.new").mkdir()
    os.kill(keeper, signal.SIGKILL)
    assert eventually(lambda: survivor.stats()["keeper_missing"] == 1)
    (survivor.daemon.folder / "state" / "memory").unlink()
    process = survivor.daemon.process
    assert process is not None and process.stdout is not None
    process.terminate()
    said = process.stdout.read()
    assert "no block is kept in memory, as no process can hold it" in said
    assert "are kept in memory until" not in said


def test_chronicleLedger_kill_everythingAcceptedIsFoundAgain(survivor: Survivor) -> None:
    survivor.start(host__ledger="chronicle")
    survivor.put(range(200))
    survivor.kill()
    survivor.start(host__ledger="chronicle")
    assert survivor.found(range(200)) == list(range(200))
    assert survivor.stats()["found_host"] > 100


def test_ledgerOfAnotherKind_memoryIsLetGo(survivor: Survivor) -> None:
    survivor.start(host__ledger="chronicle")
    survivor.put(range(50))
    survivor.kill()
    survivor.start(host__ledger="mapped")
    assert survivor.stats()["found_host"] == 0


def test_hostTierOfAnotherSize_memoryIsLetGo_andThatIsSaid(survivor: Survivor) -> None:
    survivor.start()
    survivor.kill()
    survivor.start(host__bytes="32MiB")
    assert survivor.stats()["found_host"] == 0
    assert "is given up, with the blocks in it: it is of other sizes (host.bytes" in (survivor.daemon.folder / "daemon.log").read_text()


def test_stopInOrder_everythingIsFoundAgain(survivor: Survivor) -> None:
    survivor.start()
    survivor.put(range(BLOCKS))
    survivor.daemon.stop()
    survivor.start()
    assert survivor.found(range(BLOCKS)) == list(range(BLOCKS))


def test_deleted_staysDeletedAfterAKill(survivor: Survivor) -> None:
    survivor.start()
    survivor.put(range(BLOCKS))
    with Client(survivor.daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("survivor", block_bytes=BLOCK_BYTES, model="m")
        assert namespace.delete([key(number) for number in range(0, BLOCKS, 2)]) == [Status.OK] * (BLOCKS // 2)
    survivor.kill()
    survivor.start()
    assert survivor.found(range(BLOCKS)) == list(range(1, BLOCKS, 2))


def test_memoryGone_whatWasFlushedIsFoundAgain(survivor: Survivor) -> None:
    survivor.start(host__keep="0")
    survivor.put(range(100))
    with Client(survivor.daemon.socket_path, timeout=60) as client:
        client.namespace("survivor", block_bytes=BLOCK_BYTES, model="m").flush()
    survivor.kill()
    survivor.start(host__keep="0")
    assert survivor.found(range(100)) == list(range(100))
    assert survivor.keeper() is None


def test_durabilityPower_memoryGone_whatWasFlushedIsFoundAgain(survivor: Survivor) -> None:
    settings = {"host__keep": "0", "ssd__durability": "power"}
    survivor.start(**settings)
    survivor.put(range(50))
    with Client(survivor.daemon.socket_path, timeout=60) as client:
        client.namespace("survivor", block_bytes=BLOCK_BYTES, model="m").flush()
    survivor.kill()
    survivor.start(**settings)
    assert survivor.found(range(50)) == list(range(50))
    assert survivor.stats()["found_ssd"] == 50


def test_scrub_findsTheDamagedBlock_beforeAnybodyAsks(survivor: Survivor) -> None:
    settings = {"host__keep": "0", "ssd__scrub_bytes_per_second": "1GiB"}
    survivor.start(**settings)
    survivor.put(range(20))
    with Client(survivor.daemon.socket_path, timeout=60) as client:
        client.namespace("survivor", block_bytes=BLOCK_BYTES, model="m").flush()
    survivor.kill()
    damage(survivor)
    survivor.start(**settings)
    assert eventually(lambda: survivor.stats()["scrubbed"] >= 2 * 20)
    stats = survivor.stats()
    assert stats["scrubbed_corrupt"] == 1
    assert stats["promotions"] == 0
    assert len(survivor.found(range(20))) == 19
    assert survivor.stats()["corrupt"] == stats["corrupt"]


def test_writeLimit_holds_andNothingIsLost(survivor: Survivor) -> None:
    # The share of one hour may be written at once.
    survivor.start(ssd__write_bytes_per_day="64MiB", ssd__admission="all")
    numbers = range(150)
    survivor.put(numbers)
    assert survivor.found(numbers) == list(numbers)
    written = survivor.stats()["ssd_written_bytes"]
    assert 0 < written <= 4 << 20


def test_rocksdb_memoryGone_whatWasFlushedIsFoundAgain(survivor: Survivor) -> None:
    survivor.start(host__keep="0", ssd__engine="rocksdb")
    survivor.put(range(100))
    with Client(survivor.daemon.socket_path, timeout=60) as client:
        client.namespace("survivor", block_bytes=BLOCK_BYTES, model="m").flush()
    survivor.kill()
    assert not list((survivor.daemon.folder / "ssd").glob("slots-*.dat"))
    survivor.start(host__keep="0", ssd__engine="rocksdb")
    assert survivor.found(range(100)) == list(range(100))
    stats = survivor.stats()
    assert stats["found_ssd"] == 100
    assert stats["corrupt"] == 0
    assert stats["io_errors"] == 0


def test_rocksdb_moreThanThereIsRoomFor_nothingFails_theLatestStay(survivor: Survivor) -> None:
    survivor.start(ssd__engine="rocksdb")
    # Three times what half of ssd.bytes holds: slots are used again and again.
    survivor.put(range(2 * BLOCKS))
    stats = survivor.stats()
    assert stats["io_errors"] == 0
    assert stats["ssd_evictions"] > 0
    latest = range(2 * BLOCKS - 200, 2 * BLOCKS)
    assert survivor.found(latest) == list(latest)
    files = [one for one in (survivor.daemon.folder / "ssd" / "blocks").iterdir()]
    assert sum(one.stat().st_size for one in files if one.exists()) <= 128 << 20


def test_codecChanged_whatWasStoredIsFoundAgain(survivor: Survivor) -> None:
    survivor.content = content_of_few_values
    first = "planes"
    for codec in (first, "zstd/3", "none"):
        survivor.start(host__keep="0", ssd__codec=codec)
        if codec == first:
            survivor.put(range(50))
        assert survivor.found(range(50)) == list(range(50))
        with Client(survivor.daemon.socket_path, timeout=60) as client:
            client.namespace("survivor", block_bytes=BLOCK_BYTES, model="m").flush()
        stats = survivor.stats()
        assert stats["corrupt"] == 0
        if codec == first:
            assert 0 < stats["ssd_written_bytes"] < 50 * BLOCK_BYTES * 3 // 4
        else:
            assert stats["found_ssd"] == 50
        survivor.kill()


def test_hostTierOfAnotherSize_memoryIsLetGo_ssdIsFound(survivor: Survivor) -> None:
    survivor.start()
    survivor.put(range(BLOCKS))
    first = survivor.keeper()
    survivor.kill()
    survivor.start(host__bytes="32MiB")
    assert survivor.keeper() != first
    assert first is not None
    assert eventually(lambda: not Path(f"/proc/{first}/fd/0").exists())
    found = survivor.found(range(BLOCKS))
    assert 0 < len(found) < BLOCKS
    assert survivor.stats()["found_host"] == 0


def test_keeperKilled_memoryIsGone_daemonStartsAllTheSame(survivor: Survivor) -> None:
    survivor.start()
    survivor.put(range(100))
    survivor.kill()
    keeper = survivor.keeper()
    assert keeper is not None
    os.kill(keeper, signal.SIGKILL)
    assert eventually(lambda: not Path(f"/proc/{keeper}/fd/0").exists())
    survivor.start()
    assert survivor.stats()["found_host"] == 0


def test_keepNothing_whatWasKeptIsLetGo(survivor: Survivor) -> None:
    survivor.start()
    survivor.put(range(100))
    survivor.kill()
    keeper = survivor.keeper()
    assert keeper is not None
    survivor.start(host__keep="0")
    assert survivor.keeper() is None
    assert eventually(lambda: not Path(f"/proc/{keeper}/fd/0").exists())
    assert survivor.stats()["found_host"] == 0


def test_stateDirectoryOfOthers_isRefused(survivor: Survivor) -> None:
    state = survivor.daemon.folder / "state"
    state.mkdir(mode=0o755)
    with pytest.raises(pytest.fail.Exception, match="mode 0700"):
        survivor.start()


def test_stateDirectoryOfAnotherDaemon_isRefused(survivor: Survivor, tmp_path: Path) -> None:
    survivor.start()
    other = Daemon(tmp_path)
    with pytest.raises(pytest.fail.Exception) as refused:
        other.start(**survivor.settings)
    directory = survivor.settings["host__directory"]
    assert f"host.directory '{directory}' is in use by another daemon" in str(refused.value)


def test_startThatFails_leavesNoMemory_butWhatItFound(survivor: Survivor) -> None:
    wrong = survivor.daemon.folder / "file"
    wrong.write_text("no directory")
    with pytest.raises(pytest.fail.Exception, match="is there already as a file"):
        survivor.start(ssd__directory=str(wrong))
    assert survivor.keeper() is None
    survivor.start()
    survivor.put(range(50))
    survivor.kill()
    with pytest.raises(pytest.fail.Exception, match="is there already as a file"):
        survivor.start(ssd__directory=str(wrong))
    survivor.start()
    assert survivor.stats()["found_host"] == 50


def test_keeper_holdsTheMemoryAndNothingElse(survivor: Survivor) -> None:
    survivor.start()
    keeper = survivor.keeper()
    targets = [os.readlink(one) for one in Path(f"/proc/{keeper}/fd").iterdir()]
    others = [one for one in targets if not one.startswith(("/memfd:kvtier-", "pipe:", "/dev/null"))]
    assert others == []
    assert sum(one.startswith("/memfd:kvtier-slab-") for one in targets) == 8


def test_ssdFileDamaged_blockIsAMiss_neverWrongBytes(survivor: Survivor) -> None:
    survivor.start(host__keep="0")
    survivor.put(range(100))
    with Client(survivor.daemon.socket_path, timeout=60) as client:
        client.namespace("survivor", block_bytes=BLOCK_BYTES, model="m").flush()
    survivor.kill()
    damage(survivor)
    survivor.start(host__keep="0")
    assert len(survivor.found(range(100))) == 99
    # The scrub may read the block while the get does: then both find the damage.
    stats = survivor.stats()
    assert stats["corrupt"] >= 1 and stats["corrupt"] - stats["scrubbed_corrupt"] <= 1


def test_ledgerDamaged_startsEmpty_andSaysSo(survivor: Survivor) -> None:
    survivor.start(host__keep="0")
    survivor.put(range(20))
    with Client(survivor.daemon.socket_path, timeout=60) as client:
        client.namespace("survivor", block_bytes=BLOCK_BYTES, model="m").flush()
    survivor.kill()
    for file in (survivor.daemon.folder / "ssd" / "ledger").glob("MANIFEST-*"):
        file.write_bytes(b"nonsense" * 10)
    survivor.start(host__keep="0")
    assert survivor.found(range(20)) == []
    assert "ledger" in (survivor.daemon.folder / "daemon.log").read_text()
    survivor.put(range(20))
    assert survivor.found(range(20)) == list(range(20))


def test_memoryOfADaemonThatIsGone_isLetGoOf(tmp_path: Path) -> None:
    def mapped() -> int:
        return sum("memfd:kvtier-slab" in line for line in Path("/proc/self/maps").read_text().splitlines())

    before = mapped()
    daemon = Daemon(tmp_path)
    try:
        daemon.start(host__keep="0")
        with Client(daemon.socket_path, timeout=30) as client:
            namespace = client.namespace("gone", block_bytes=BLOCK_BYTES)
            assert namespace.put([key(0)], content(0)) == [Status.OK]
            leases = namespace.acquire([key(0)])
            assert leases.statuses == [Status.OK]
            during = mapped()
            assert during > before
            daemon.kill()
            # One call finds the session ended, the next one wants another.
            for _ in range(2):
                assert namespace.lookup([key(0)]).statuses == [Status.UNAVAILABLE]
            # A client that reads blocks in place keeps only the memory of these blocks.
            assert before < mapped() < during
            assert leases.read(0) == content(0)
            leases.release()
            assert mapped() == before
    finally:
        daemon.stop()
