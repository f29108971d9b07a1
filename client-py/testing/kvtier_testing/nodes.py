"""The other nodes of a daemon."""

import json

from kvtier import Client, Status
from kvtier._core import monotonic_ns
from kvtier._operations import plain_request
from kvtier._protocol import Verb

_TIMEOUT_NS = 60_000_000_000


def connected(client: Client) -> set[str]:
    """The addresses of the nodes to which the client's daemon is connected, without a process: in loops, `scripts/kvtier` would build
    what has changed. Empty if there is no answer."""
    answer_by_ns = monotonic_ns() + _TIMEOUT_NS
    link = client._connection.link(answer_by_ns)
    if link is None:
        return set()
    status, _, _, body, *_ = link.session.call(plain_request(Verb.ADMIN, 0, answer_by_ns, 0, b"nodes"), answer_by_ns)
    if status is not Status.OK:
        return set()
    return {str(peer["address"]) for peer in json.loads(body)["peers"] if peer["state"] == "connected"}
