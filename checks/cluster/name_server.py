"""A name server for one name, as a cluster's for a headless service: its addresses are the lines of a file, which may change.

Run inside a network namespace: name_server.py NAME FILE. Says `ready` when it serves.
"""

import sys
from pathlib import Path

from dnslib import QTYPE, RCODE, RR, A
from dnslib.server import BaseResolver, DNSHandler, DNSLogger, DNSRecord, DNSServer

PORT = 53
TTL_S = 5


class Service(BaseResolver):
    """Answers questions for the addresses of one name. While there are none, the name does not exist."""

    def __init__(self, name: str, addresses: Path) -> None:
        self._name = name
        self._addresses = addresses

    def resolve(self, request: DNSRecord, handler: DNSHandler) -> DNSRecord:
        """The answer to a question."""
        reply = request.reply()
        known = self._addresses.read_text().split()
        if str(request.q.qname).rstrip(".") != self._name or not known:
            reply.header.rcode = RCODE.NXDOMAIN
        elif request.q.qtype in (QTYPE.A, QTYPE.ANY):
            for address in known:
                reply.add_answer(RR(request.q.qname, QTYPE.A, rdata=A(address), ttl=TTL_S))
        return reply


def main() -> None:
    name, addresses = sys.argv[1:]
    server = DNSServer(Service(name, Path(addresses)), address="0.0.0.0", port=PORT, logger=DNSLogger("-request,-reply,-truncated"))
    server.start_thread()
    print("ready", flush=True)
    server.thread.join()


if __name__ == "__main__":
    main()
