"""The asyncio client with a real daemon."""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from kvtier_testing.blocks import block, blocks, keys, wrong_blocks
from kvtier_testing.counts import slots_balance
from kvtier_testing.daemon import HANG_S, Daemon, in_a_folder
from kvtier_testing.remote import RemoteDaemon

from kvtier import Status, aio


def with_client(daemon: Daemon, scenario: Callable[[aio.Client], Awaitable[None]]) -> None:
    async def run() -> None:
        made = (
            aio.Client(daemon.address, timeout=60, **daemon.credentials)
            if isinstance(daemon, RemoteDaemon)
            else aio.Client(daemon.socket_path, name="aio", timeout=60)
        )
        async with made as client:
            await scenario(client)

    asyncio.run(run())


async def eventually(condition: Callable[[], Awaitable[bool]], timeout_s: float = 10) -> bool:
    deadline = time.monotonic() + timeout_s
    while not await condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


@pytest.fixture(scope="module", params=["socket", "grpcs"])
def any_daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon that is asked over its socket, and one over gRPC."""
    with in_a_folder(RemoteDaemon if request.param == "grpcs" else Daemon) as made:
        made.start()
        yield made


def test_everyOperation_answers(any_daemon: Daemon) -> None:
    async def scenario(client: aio.Client) -> None:
        assert (await client.ping()).status is Status.OK
        namespace = await client.namespace("aio-all", block_bytes=4096)
        some = keys("aio-all", 5)
        assert await namespace.put(some[:3], blocks(some[:3], 4096)) == [Status.OK] * 3
        assert (await namespace.lookup(some)).run == 3
        into = bytearray(3 * 4096)
        assert (await namespace.get(some[:3], into)).run == 3 and into == blocks(some[:3], 4096)
        with await namespace.acquire(some) as leases:
            assert leases.run == 3 and leases.check()[:3] == [Status.OK] * 3
        with await namespace.reserve(some[3:]) as slots:
            for one, view in zip(some[3:], slots.views, strict=True):
                assert view is not None
                view[:] = block(one, 4096)
            assert await slots.commit() == [Status.OK] * 2
        assert await namespace.pin(some) == [Status.OK] * 5
        assert await namespace.unpin(some) == [Status.OK] * 5
        assert await namespace.retain(some, 60) == ([Status.OK] * 5, "")
        assert await namespace.retain(some, 0) == ([Status.OK] * 5, "")
        assert await namespace.prefetch(some) == [Status.OK] * 5
        assert (await namespace.flush(timeout=30)).status is Status.OK
        assert await namespace.delete(some[:1]) == [Status.OK]
        assert await namespace.clear() == (Status.OK, 4)
        assert await client.stats() and (await client.counters())["requests"] > 0

    with_client(any_daemon, scenario)


def test_manyAtOnce_eachItsOwnBytes(any_daemon: Daemon) -> None:
    async def scenario(client: aio.Client) -> None:
        namespace = await client.namespace("aio-many", block_bytes=16384)
        some = keys("aio-many", 256)
        assert await namespace.put(some, blocks(some, 16384)) == [Status.OK] * 256

        async def read(number: int) -> bool:
            numbers = random.Random(number)
            count = numbers.choice((1, 3, 20))
            first = numbers.randrange(256 - count)
            wanted = some[first : first + count]
            into = bytearray(count * 16384)
            answer = await namespace.get(wanted, into)
            return answer.run == count and not wrong_blocks(wanted, answer.statuses, into)

        assert all(await asyncio.gather(*(read(number) for number in range(400))))
        assert await eventually(lambda: _balanced(client))

    with_client(any_daemon, scenario)


async def _balanced(client: aio.Client) -> bool:
    return slots_balance(await client.counters())


def test_cancelled_nothingStaysHeld(fresh_daemon: Daemon) -> None:
    async def scenario(client: aio.Client) -> None:
        namespace = await client.namespace("aio-cancel", block_bytes=65536)
        some = keys("aio-cancel", 128)
        data = blocks(some, 65536)
        assert await namespace.put(some, data) == [Status.OK] * 128
        numbers = random.Random(8)
        cancelled = 0
        for step in range(60):
            into = bytearray(64 * 65536)
            fresh = keys(f"aio-cancel-{step}", 2)
            tasks = [
                asyncio.create_task(namespace.get(some[:64], into)),
                asyncio.create_task(namespace.acquire(some[64:])),
                asyncio.create_task(namespace.put(fresh, blocks(fresh, 65536))),
                asyncio.create_task(namespace.reserve(keys(f"aio-cancel-r{step}", 2))),
            ]
            await asyncio.sleep(numbers.random() * 0.004)
            for task in tasks:
                cancelled += task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                assert not isinstance(outcome, Exception), outcome
                del outcome
            del tasks, task  # their results hold what the operations got
        assert cancelled > 0
        assert await eventually(lambda: _balanced(client)), str(await client.counters())
        assert (await namespace.get(some[:64], bytearray(64 * 65536))).run == 64

    with_client(fresh_daemon, scenario)


def test_cancelled_waitingOperation_returnsAtOnce(fresh_daemon: Daemon) -> None:
    async def scenario(client: aio.Client) -> None:
        namespace = await client.namespace("aio-waits", block_bytes=4096)
        some = keys("aio-waits", 4)
        assert await namespace.put(some, blocks(some, 4096)) == [Status.OK] * 4
        fresh_daemon.pause()
        tasks = [asyncio.create_task(namespace.acquire(some)) for _ in range(10)]
        await asyncio.sleep(0.05)
        started = time.monotonic()
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        assert (await namespace.lookup(some, timeout=0.1)).statuses == [Status.DEADLINE] * 4
        assert time.monotonic() - started < HANG_S
        fresh_daemon.signal(signal.SIGCONT)
        assert await eventually(lambda: _balanced(client))
        assert (await namespace.lookup(some)).run == 4

    with_client(fresh_daemon, scenario)


def test_daemonKilled_unavailableThenReconnects(fresh_daemon: Daemon) -> None:
    async def scenario(client: aio.Client) -> None:
        namespace = await client.namespace("aio-killed", block_bytes=4096)
        some = keys("aio-killed", 4)
        assert await namespace.put(some, blocks(some, 4096)) == [Status.OK] * 4
        fresh_daemon.pause()
        waiting = [asyncio.create_task(namespace.get(some, bytearray(4 * 4096))) for _ in range(5)]
        await asyncio.sleep(0.05)
        fresh_daemon.kill()
        started = time.monotonic()
        for answer in await asyncio.gather(*waiting):
            assert answer.statuses == [Status.UNAVAILABLE] * 4
        assert time.monotonic() - started < HANG_S
        assert await namespace.put(some, blocks(some, 4096)) == [Status.UNAVAILABLE] * 4
        await asyncio.to_thread(fresh_daemon.start)

        async def present() -> bool:
            await namespace.put(some, blocks(some, 4096))
            return (await namespace.lookup(some)).run == 4

        assert await eventually(present)
        into = bytearray(4 * 4096)
        assert (await namespace.get(some, into)).run == 4 and into == blocks(some, 4096)

    with_client(fresh_daemon, scenario)


def test_closeWhileWaiting_unavailable(fresh_daemon: Daemon) -> None:
    async def scenario(client: aio.Client) -> None:
        namespace = await client.namespace("aio-close", block_bytes=4096)
        fresh_daemon.pause()
        task = asyncio.create_task(namespace.lookup(keys("aio-close", 3)))
        await asyncio.sleep(0.05)
        await client.close()
        assert (await task).statuses == [Status.UNAVAILABLE] * 3
        fresh_daemon.signal(signal.SIGCONT)

    with_client(fresh_daemon, scenario)
