"""`kvtier.device.Copying`: layers that a session's words count, without a GPU."""

import time
from collections import deque
from types import SimpleNamespace
from typing import Any

from kvtier.device import Copying, Word


class Session:
    """One whose word counts a layer more at each look."""

    def __init__(self, most: int) -> None:
        self.count = 7
        self.most = 7 + most
        self.looks = 0

    def has(self, ticket: int, deadline_ns: int) -> bool:
        if deadline_ns:
            self.looks += 1
            self.count = min(self.most, self.count + 1)
            time.sleep(0.0001)
        return False

    def progress(self, number: int) -> int:
        assert number == 3
        return self.count


def copying(session: Session, layers: int) -> Copying:
    link: Any = SimpleNamespace(session=session, progress_words=deque())
    return Copying(link, [(1, 4, Word(3, 7))], layers)


def test_waitLayers_endsWhenTheyAreThere() -> None:
    session = Session(most=8)
    made = copying(session, 8)
    assert made.wait_layers(3) == 3 and session.looks == 3
    assert made.wait_layers(2) == 3 and session.looks == 3


def test_waitLayers_endsWhenItIsTooLate() -> None:
    session = Session(most=2)
    assert copying(session, 8).wait_layers(3, 0.02) == 2 and session.looks > 2


def test_waitLayers_ofACopyThatIsOver_areAll() -> None:
    assert Copying(None, [(-5, 4, Word(0, 0))], 8).wait_layers(3) == 8
