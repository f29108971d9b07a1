"""Streams that wait for the layers of a get on the GPU's side: no thread of this process stands still for it, or is needed.

The daemon counts the layers that are there in a word of memory that it shares with this process. The driver makes the page
of that word known to the GPU, whose front end compares it by itself before it goes on with the stream (CUDA's stream memory
operations).

Why a kernel behind the wait reads what was copied: the daemon's copies are done by the same GPU, and their completion, which
makes their bytes visible to all of it, was seen by the daemon's lane before the word was written; so who reads the word sees
memory in which they are, whichever process's context it belongs to. The kernel begins after that, with caches of its own that
are empty. Nothing written from outside of the GPU is relied on, which is what CU_STREAM_WAIT_VALUE_FLUSH is for.

Why a wait always ends: `Copying.words_until`.
"""

import ctypes
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kvtier import _protocol as protocol
from kvtier._core import Slab
from kvtier.device import Copying

_CAN_USE_64_BIT_STREAM_MEM_OPS = 122
"""CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS: of those of 32 bits, which are there wherever these are, cuda.h has none
since the operations need not be switched on any more"""
_HOST_REGISTER_PORTABLE_AND_MAPPED = 3
_WAIT_VALUE_GEQ = 0
"""The difference as a signed number is 0 or more."""

_NO_WORD = "the daemon is too old for it, or counts the layers of as many copies as it can"

_log = logging.getLogger("kvtier")


@dataclass(eq=False, slots=True)
class _Page:
    """Words of one session that GPUs see, at one address. Its mapping must stay until the driver has forgotten it."""

    words: Slab
    view: Any
    host: int
    device: int = 0
    users: int = 0


_pages: list[_Page] = []
"""Those of all regions: one that nobody closes leaves its own, as the GPU may still look at them."""
_pages_lock = threading.Lock()


class _WaitError(Exception):
    """A stream can't wait; its text says why."""


class StreamWaits:
    """The waits of one region's gets, on one GPU. That GPU's context must be current where it is made."""

    def __init__(self, driver: Any, synchronize: Callable[[], None]) -> None:
        self._driver = driver
        self._synchronize = synchronize
        self._mine: list[_Page] = []
        self._told: set[str] = set()
        self._context = ctypes.c_void_p()
        self._problem = ""
        """What no get will find otherwise."""
        try:
            self._require()
        except _WaitError as error:
            self._problem = str(error)

    def _require(self) -> None:
        device, can = ctypes.c_int(), ctypes.c_int()
        self._call("cuCtxGetCurrent", ctypes.byref(self._context))
        self._call("cuCtxGetDevice", ctypes.byref(device))
        if not self._context.value:
            raise _WaitError("this thread has no context")
        self._call("cuDeviceGetAttribute", ctypes.byref(can), _CAN_USE_64_BIT_STREAM_MEM_OPS, device)
        if not can.value:
            raise _WaitError("the GPU or its driver has no stream memory operations")

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._driver, name, None)
        if function is None:
            raise _WaitError(f"the driver has no {name}")
        code = function(*arguments)
        if code:
            raise _WaitError(f"{name}: CUDA error {code}")

    def until(self, copying: Copying, layers: int, stream: int) -> None:
        """Has a stream wait until so many leading layers are there, or the copy is over; where the GPU can't, this thread."""
        try:
            if self._problem:
                raise _WaitError(self._problem)
            self._on_stream(copying, layers, stream)
        except _WaitError as error:
            self._tell(str(error))
            copying.wait_layers(layers)

    def _on_stream(self, copying: Copying, layers: int, stream: int) -> None:
        try:
            words = copying.words_until(layers)
        except OSError as error:
            raise _WaitError(f"nothing would see to it that the waits end: {error}") from error
        if words is None:
            raise _WaitError(_NO_WORD)
        if not words:
            return
        with self._current():
            page = self._page(copying)
            for number, value in words:
                at = page.device + protocol.SESSION_PROGRESS_OFFSET + 4 * (number - 1)
                self._call(
                    "cuStreamWaitValue32_v2", ctypes.c_void_p(stream), ctypes.c_uint64(at), ctypes.c_uint32(value), _WAIT_VALUE_GEQ
                )

    @contextmanager
    def _current(self) -> Iterator[None]:
        """A thread that has not used the GPU has no context."""
        self._driver.cuCtxPushCurrent_v2(self._context)
        try:
            yield
        finally:
            self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def _page(self, copying: Copying) -> _Page:
        """The words of the copy's session."""
        words = None if copying.link is None else copying.link.words
        if words is None:
            raise _WaitError(_NO_WORD)
        with _pages_lock:
            page = next((one for one in _pages if one.words is words), None) or self._registered(words)
            if page not in self._mine:
                page.users += 1
                self._mine.append(page)
            return page

    def _registered(self, words: Slab) -> _Page:
        view = (ctypes.c_ubyte * len(words)).from_buffer(words)
        page = _Page(words, view, ctypes.addressof(view))
        device = ctypes.c_uint64()
        host = ctypes.c_void_p(page.host)
        self._call("cuMemHostRegister_v2", host, ctypes.c_size_t(len(words)), _HOST_REGISTER_PORTABLE_AND_MAPPED)
        try:
            self._call("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, 0)
        except _WaitError:
            self._call("cuMemHostUnregister", host)
            raise
        page.device = device.value
        _pages.append(page)
        return page

    def _tell(self, problem: str) -> None:
        if problem not in self._told:
            self._told.add(problem)
            _log.warning("a stream can't wait for layers, the thread does: %s", problem)

    def close(self) -> None:
        """Takes the words from the GPU, when what was given to it until now is done. Every wait has its end before it: the
        copies are over, or their session."""
        with _pages_lock:
            mine, self._mine = self._mine, []
        if not mine:
            return
        self._synchronize()
        with _pages_lock, self._current():
            for page in mine:
                page.users -= 1
                if page.users == 0:
                    with suppress(_WaitError):
                        self._call("cuMemHostUnregister", ctypes.c_void_p(page.host))
                        _pages.remove(page)
