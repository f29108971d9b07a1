"""A prompt that is larger than the tiers keeps its beginning: a run of blocks is of use from its beginning only."""

from kvtier_testing import blocks
from kvtier_testing.daemon import Daemon

from kvtier import Client, Lookup, Namespace, Status

BLOCK_BYTES = 262144
CHUNK = 50


def put(namespace: Namespace, chain: list[bytes]) -> None:
    """Puts blocks as an engine that computes a long prompt in chunks. Each chunk names the block before its first."""
    for i in range(0, len(chain), CHUNK):
        chunk = chain[i : i + CHUNK]
        parent = chain[i - 1] if i else None
        namespace.put(chunk, bytes(len(chunk) * BLOCK_BYTES), depth=i, parent=parent, timeout=60)


def there(look: Lookup) -> int:
    return look.statuses.count(Status.OK)


def test_longPromptInChunks_largerThanMemory_keepsItsHead(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(ssd__bytes="0")
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("m", block_bytes=BLOCK_BYTES)
        chain = blocks.keys("long", 400)
        put(namespace, chain)
        look = namespace.lookup(chain)
    assert there(look) > 200
    assert look.run > 0.75 * there(look)


def test_longPromptInChunks_largerThanMemoryAndSsd_keepsItsHead(stopped_daemon: Daemon) -> None:
    stopped_daemon.start()
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("m", block_bytes=BLOCK_BYTES)
        chain = blocks.keys("long", 900)
        put(namespace, chain)
        look = namespace.lookup(chain)
    assert there(look) > 600
    assert look.run > 0.75 * there(look)
