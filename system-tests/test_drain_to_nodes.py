"""A daemon hands its blocks to other nodes before it stops: they get the right bytes, whoever dies meanwhile."""

import json
import re
import signal
import threading
from pathlib import Path

import pytest
from kvtier_testing import blocks
from kvtier_testing.counts import slots_balance
from kvtier_testing.daemon import eventually
from test_nodes import BLOCK_BYTES, NAME, PLAINTEXT, Node, cluster, folder  # noqa: F401  (a fixture)

from kvtier import Status

WRITING = {**PLAINTEXT, "nodes__tokenless_role": "write"}


def drained(node: Node, *words: str) -> tuple[int, dict[str, object]]:
    """The exit code of a drain to other nodes, and what it tells."""
    ran = node.daemon.command("drain", "--yes", "--to-nodes", "--json", *words)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def drained_beside_a_silent_node(node: Node, silent: Node) -> tuple[int, dict[str, object]]:
    """What a drain tells whose only other node is paused. A node that was silent for three seconds is not connected any more: then again."""
    for _ in range(10):
        silent.daemon.pause()
        ran = node.daemon.command("drain", "--yes", "--to-nodes", "--json", "--deadline", "1")
        if ran.stdout:
            return ran.returncode, json.loads(ran.stdout)
        assert "no other node is connected" in ran.stderr
        silent.daemon.signal(signal.SIGCONT)
        assert eventually(lambda: node.is_connected_to(silent))
    raise AssertionError("each drain began too late")


def is_clean(node: Node) -> bool:
    return slots_balance(node.client.counters())


def test_drainedNode_leavesAllItsBlocksToAnother(folder: Path) -> None:  # noqa: F811
    with cluster(folder, 2, **WRITING) as (first, second):
        keys = first.put(60)
        code, told = drained(first)
        assert (code, told["pushed"], told["present"], told["refused"]) == (0, len(keys), 0, {})
        assert told["pushed_bytes"] == len(keys) * BLOCK_BYTES
        # Reads of the drained node go on, and it takes no new block.
        assert first.get(keys) == [Status.OK] * len(keys)
        assert eventually(lambda: is_clean(first) and is_clean(second))
        assert first.count("node_pushed") == second.count("node_taken") == len(keys)
        assert eventually(lambda: second.count("pushed_bytes") == len(keys) * BLOCK_BYTES)
        # The second time, all are there.
        assert drained(first)[1]["present"] == len(keys)
        readers = json.loads(second.daemon.command("nodes", "--json").stdout)["readers"]
        assert sum(int(count) for count in re.findall(r"pushed (\d+) block", str(readers))) == len(keys)
        first.stop()
        assert second.get(keys) == [Status.OK] * len(keys)
        assert second.count("hits_node") == second.count("node_fetched") == second.count("corrupt") == 0
        assert eventually(lambda: second.count("pushed_bytes") == 0)
        first.start()


def test_blocksThatWereHandedOver_areFoundByTheDirectory(folder: Path) -> None:  # noqa: F811
    with cluster(folder, 3, nodes__directory="on", nodes__directory_bytes="1MiB", **WRITING) as (first, second, third):
        keys = first.put(60)
        code, told = drained(first)
        assert (code, told["pushed"]) == (0, len(keys))
        assert min(second.count("node_taken"), third.count("node_taken")) > 0, "each has some of them"
        first.stop()
        # What nodes answered about the stopped node is forgotten, and each of the two reads the blocks that the other one got.
        assert eventually(lambda: second.get(keys) == [Status.OK] * len(keys), 20)
        assert eventually(lambda: third.get(keys) == [Status.OK] * len(keys), 20)
        assert second.count("node_fetched") >= third.count("node_taken") > 0
        first.start()


def test_blocksGoToAllNodes_withinTheirShares(folder: Path) -> None:  # noqa: F811
    with cluster(folder, 3, nodes__pushed_share="0.25", **WRITING) as (first, second, third):
        first.put(200)
        code, told = drained(first)
        assert code == 1
        taken = second.count("node_taken"), third.count("node_taken")
        assert taken == (64, 64), "16 MiB each"
        assert told["pushed"] == 128 and told["refused"] == {"share_used_up": 72}
        assert eventually(lambda: all(is_clean(node) for node in (first, second, third)))


def test_bytesMax_endsTheHandOver_well(folder: Path) -> None:  # noqa: F811
    with cluster(folder, 2, **WRITING) as (first, second):
        first.put(60)
        code, told = drained(first, "--bytes-max", "2MiB")
        assert (code, told["pushed"]) == (0, 8)
        assert second.count("node_taken") == 8
        words = first.daemon.command("drain", "--yes", "--to-nodes", "--bytes-max", "1MiB").stdout
        assert "4 blocks of 60 pushed (1.0 MiB), 8 were there already" in words


def test_nodesThatMayOnlyRead_areRefused_andTold(folder: Path) -> None:  # noqa: F811
    with cluster(folder, 2, **PLAINTEXT) as (first, second):
        first.put(5)
        code, told = drained(first)
        assert (code, told["refused"]) == (1, {"denied": 5})
        assert second.count("node_take_refused") >= 1
        assert second.count("node_taken") == 0


def test_drainWithoutOtherNodes_isRefused_andTheDaemonTakesNewBlocks(folder: Path) -> None:  # noqa: F811
    with cluster(folder, 1, **WRITING) as (only,):
        ran = only.daemon.command("drain", "--yes", "--to-nodes")
        assert ran.returncode == 1
        assert "no other node is connected" in ran.stderr
        assert only.daemon.command("drain", "--yes", "--to-nodes", "--deadline", "0").returncode == 2
        only.put(1)


def test_silentNode_endsTheDrainAtItsDeadline_andDrainOffEndsIt(folder: Path) -> None:  # noqa: F811
    with cluster(folder, 2, **WRITING) as (first, second):
        first.put(60)
        try:
            code, told = drained_beside_a_silent_node(first, second)
            assert code == 1
            assert told["why"] == "the deadline has passed"
        finally:
            second.daemon.signal(signal.SIGCONT)
        assert eventually(lambda: is_clean(first))
        assert eventually(lambda: first.is_connected_to(second))
        assert eventually(lambda: is_clean(second))
        assert drained(first)[0] == 0
        assert first.daemon.command("drain", "--off").returncode == 0
        new = [blocks.key(NAME, 1000)]
        assert first.namespace.put(new, blocks.blocks(new, BLOCK_BYTES)) == [Status.OK]


@pytest.mark.parametrize("dies", ["sender", "receiver"])
def test_deathInTheMiddle_leavesNothingWrong(folder: Path, dies: str) -> None:  # noqa: F811
    with cluster(folder, 3, host__bytes="512MiB", host__slab_bytes="32MiB", **WRITING) as (first, second, third):
        keys = first.put(1200)
        told: list[tuple[int, str]] = []

        def drain() -> None:
            ran = first.daemon.command("drain", "--yes", "--to-nodes", "--json")
            told.append((ran.returncode, ran.stdout))

        draining = threading.Thread(target=drain)
        draining.start()
        try:
            assert eventually(lambda: second.count("node_taken") > 20)
            victim = first if dies == "sender" else second
            victim.client.close()
            victim.daemon.kill()
        finally:
            draining.join(120)
        survivors = [third] if dies == "receiver" else [second, third]
        for node in survivors:
            assert eventually(lambda node=node: is_clean(node)), node.client.counters()
            statuses = set(node.get(keys))
            assert statuses <= {Status.OK, Status.MISS}
            assert node.count("corrupt") == node.count("node_take_corrupt") == 0
        if dies == "receiver":
            # Its blocks went to the third node, as far as that could take them.
            assert eventually(lambda: is_clean(first)), first.client.counters()
            code, text = told[0]
            told_now = json.loads(text)
            assert told_now["pushed"] + told_now["present"] + sum(told_now["refused"].values()) == len(keys)
            assert code == (1 if told_now["refused"] else 0)
            assert third.count("node_taken") > 200
        victim.start()
