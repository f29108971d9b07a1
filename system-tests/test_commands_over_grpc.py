"""The commands of `kvtier` that take `--address`, against a daemon with TLS and tokens."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kvtier_testing.blocks import block, keys
from kvtier_testing.certificates import certificate
from kvtier_testing.daemon import PROGRAMS, in_a_folder
from kvtier_testing.remote import RemoteDaemon

from kvtier import Status, remote

BLOCK_BYTES = 4096
NAME = "over-grpc"


@pytest.fixture(scope="module")
def daemon() -> Iterator[RemoteDaemon]:
    with in_a_folder(RemoteDaemon) as made:
        made.start()
        yield made


def run(daemon: RemoteDaemon, *words: str, token: Path | None = None, ca: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Runs a command against the daemon's gRPC port."""
    where = ["--address", f"127.0.0.1:{daemon.port}", "--timeout", "60"]
    who = ["--token-file", str(token or daemon.token_file), "--ca", str(ca or daemon.certificate)]
    return subprocess.run([str(PROGRAMS / "kvtier"), *words, *where, *who], capture_output=True, text=True, check=False)


def answer(daemon: RemoteDaemon, *words: str) -> dict[str, Any]:
    told = run(daemon, *words, "--json")
    assert told.returncode == 0, told.stderr
    body = json.loads(told.stdout)
    assert isinstance(body, dict)
    return body


def test_commands_seeAndDeleteBlocksOfAnotherClient(daemon: RemoteDaemon) -> None:
    some = keys(NAME, 4)
    with remote.Client(daemon.address, timeout=60, **daemon.credentials) as client:
        namespace = client.namespace(NAME, block_bytes=BLOCK_BYTES)
        assert namespace.put(some, b"".join(block(one, BLOCK_BYTES) for one in some)) == [Status.OK] * 4
        status = answer(daemon, "status")
        assert status["answers"] and status["address"] == daemon.address
        assert answer(daemon, "stats")["counters"]["put_blocks"] == 4
        assert {tier["tier"] for tier in answer(daemon, "tiers")["tiers"]} >= {"host"}
        assert NAME in run(daemon, "namespaces").stdout
        found = run(daemon, "lookup", "--namespace", NAME, some[0].hex())
        assert found.returncode == 0 and "host" in found.stdout, found.stdout
        assert run(daemon, "lookup", "--namespace", NAME, keys("absent", 1)[0].hex()).returncode == 1
        assert run(daemon, "flush", "--namespace", NAME).returncode == 0
        assert run(daemon, "delete", "--namespace", NAME, some[0].hex(), "--yes").returncode == 0
        assert namespace.lookup(some).statuses == [Status.MISS] + [Status.OK] * 3
        assert run(daemon, "clear", "--namespace", NAME, "--yes").returncode == 0
        assert namespace.lookup(some).statuses == [Status.MISS] * 4


def test_command_callerWithoutRights_saysWhy(daemon: RemoteDaemon, tmp_path: Path) -> None:
    unknown = tmp_path / "token"
    unknown.write_text("kvt_000000000000_" + "A" * 43)
    refused = run(daemon, "status", token=unknown)
    assert refused.returncode == 1 and "token" in refused.stderr, refused.stderr
    other, _ = certificate(tmp_path)
    unreached = run(daemon, "status", ca=other)
    assert unreached.returncode == 3, unreached.stderr
