"""A client of the soak in Python: does as the lines on its standard input say.

Each line is ``VERB SPACE NUMBER,NUMBER...``; each is answered by one line: the blocks' statuses, and behind a bar
``NUMBER:BYTES`` for blocks that were read with wrong bytes. io.kvtier.bench.soak.SoakHand speaks the same.
"""

import logging
import sys
from pathlib import Path

from checks.soak.content import Content, Space, key
from kvtier import Client, Namespace, Status
from kvtier.annotations import of_tokens


class Hand:
    """The namespaces through one client."""

    def __init__(self, socket_path: Path, timeout_s: float, seed: str, spaces: list[Space]) -> None:
        self.client = Client(socket_path, name="soak-python", timeout=timeout_s)
        self._seed = seed
        self._spaces = {space.name: space for space in spaces}
        self._namespaces: dict[str, Namespace] = {}
        self._contents: dict[str, Content] = {}

    def _namespace(self, space: str) -> Namespace:
        if space not in self._namespaces:
            block_bytes = self._spaces[space].block_bytes
            self._contents[space] = Content(block_bytes)
            self._namespaces[space] = self.client.namespace(space, block_bytes=block_bytes, model="soak")
        return self._namespaces[space]

    def put(self, space: str, numbers: list[int]) -> list[Status]:
        namespace = self._namespace(space)
        keys = [key(self._seed, space, number) for number in numbers]
        # Without the ids of its tokens, no event would tell of a block.
        tokens = [of_tokens([number & 0xFFFFFFFF]) for number in numbers]
        return namespace.put(keys, [self._contents[space].block(one) for one in keys], annotations=tokens)

    def get(self, space: str, numbers: list[int]) -> tuple[list[Status], dict[int, int]]:
        """The statuses, and how many bytes are wrong in which blocks."""
        namespace = self._namespace(space)
        keys = [key(self._seed, space, number) for number in numbers]
        # Bytes left from an earlier get must not pass for this one's.
        buffer = bytearray(len(keys) * namespace.block_bytes)
        statuses = namespace.get(keys, buffer).statuses
        wrong = {}
        for place, (number, one, status) in enumerate(zip(numbers, keys, statuses, strict=True)):
            if status is Status.OK:
                bad = self._contents[space].wrong_bytes(one, buffer, place * namespace.block_bytes)
                if bad:
                    wrong[number] = bad
        return statuses, wrong

    def delete(self, space: str, numbers: list[int]) -> list[Status]:
        return self._namespace(space).delete([key(self._seed, space, number) for number in numbers])

    def flush(self, space: str) -> list[Status]:
        return [self._namespace(space).flush().status]

    def answer(self, line: str) -> str:
        verb, space, text = line.split(" ")
        numbers = [int(number) for number in text.split(",") if number]
        wrong: dict[int, int] = {}
        if verb == "get":
            statuses, wrong = self.get(space, numbers)
        elif verb == "flush":
            statuses = self.flush(space)
        else:
            statuses = {"put": self.put, "delete": self.delete}[verb](space, numbers)
        behind = " |" + "".join(f" {number}:{bad}" for number, bad in wrong.items()) if wrong else ""
        return " ".join(status.name for status in statuses) + behind


def main() -> None:
    """Arguments: the socket, the timeout in seconds, the seed, and ``SPACE=BYTES`` for each namespace."""
    logging.getLogger("kvtier").addHandler(logging.NullHandler())
    socket_path, timeout_s, seed, *spaces = sys.argv[1:]
    hand = Hand(Path(socket_path), float(timeout_s), seed, [Space.of(space) for space in spaces])
    for line in sys.stdin:
        print(hand.answer(line.rstrip("\n")), flush=True)


if __name__ == "__main__":
    main()
