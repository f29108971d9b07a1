"""What an engine has and does not hand to its connector: it stands in the frames that called it."""

import inspect
from collections.abc import Callable
from typing import Any

_FRAMES_MAX = 32


def local(name: str, is_it: Callable[[Any], bool]) -> Any:
    """The nearest caller's variable of this name that is what is looked for; None: no caller has one."""
    frame = inspect.currentframe()
    for _ in range(_FRAMES_MAX):
        frame = None if frame is None else frame.f_back
        if frame is None:
            return None
        found = frame.f_locals.get(name)
        if found is not None and is_it(found):
            return found
    return None
