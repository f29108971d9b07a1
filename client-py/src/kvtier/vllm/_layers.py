"""Whether the engine asks for its layers, one by one, before it reads them."""

import logging
from collections.abc import Mapping

_log = logging.getLogger("vllm.kvtier")

_WATCHED_MAX = 16


class Layers:
    """The layers of a region by the engine's names for them, and those that it has asked for in the step that it computes.

    Whether an engine asks for a layer depends on its model, its attention backend and its CUDA graphs. So nothing is taken for granted:
    the engine is watched. Its loads may come by layer when it has asked for every layer within one step.
    """

    def __init__(self, numbers: Mapping[str, int], verifies: bool) -> None:
        """
        Args:
            numbers: of each name, the layer's number in the region; several names may have one.
            verifies: whether blocks that readers must verify are verified before the engine counts on them. This takes as long as
                reading them, and engines on GPUs have next to no such blocks.
        """
        self._numbers = dict(numbers)
        self._count = 1 + max(numbers.values())
        self._asked: set[int] = set()
        self._watched = 0
        self.verifies = verifies
        self.are_asked_for = False
        """whether it has been seen that the engine asks for each"""
        self.is_listening = False
        """whether a step is computed in which it is of interest what the engine asks for"""
        self.must_ask = False
        """whether that step would read layers too early that it does not ask for"""

    @property
    def is_watching(self) -> bool:
        """Whether it is still to be found out whether the engine asks for each."""
        return not self.are_asked_for and self._watched < _WATCHED_MAX

    def begin(self, must_ask: bool) -> None:
        """A step is about to be computed in which the engine can ask, or must, as layers that it reads are still to come."""
        self._asked.clear()
        self.is_listening = True
        self.must_ask = must_ask

    def ask(self, name: str) -> int:
        """The engine is about to read a layer.

        Returns:
            How many leading layers must be there; all, where the name is not known.
        """
        number = self._numbers.get(name, self._count - 1)
        self._asked.add(number)
        return number + 1

    def end(self) -> list[str]:
        """The step has been handed to the device.

        Returns:
            The names of layers that the engine has not asked for.
        """
        self.is_listening = False
        missing = [name for name, number in self._numbers.items() if number not in self._asked]
        if self.is_watching:
            self._watched += 1
            self.are_asked_for = not missing
            if not self.is_watching and missing:
                _log.warning(
                    "kvtier.load_by_layer is not used: the engine does not ask for %d of its %d layers before it reads them, for example %s. "
                    "Set kvtier.load_by_layer to 'off'",
                    len(missing), len(self._numbers), missing[0],
                )  # fmt: skip
        return missing
