"""The keys under which the daemon knows the blocks of requests.

An engine hashes each block of a request, with all tokens before it. The hash is the block's key, unless the engine's weights have
changed since its namespace was made: then keys are made of hashes and weights (`kvtier.engine.epochs`). Engines write hashes as bytes,
as hexadecimal digits, or as whole numbers of 128 bits; `hash_bytes` makes bytes of all of them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, Self

from kvtier._core import keys_of_digits
from kvtier._errors import InvalidArgument
from kvtier._protocol import KEY_BYTES_MAX
from kvtier.engine.epochs import Epochs, salted
from kvtier.engine.groups import Group


class Sought(Protocol):
    """A request, as far as a search looks at it. An engine's own class of requests may be one."""

    @property
    def request_id(self) -> str:
        """Tells it from the engine's other requests."""

    @property
    def num_tokens(self) -> int:
        """How many tokens it has now. The last one is computed in any case."""

    @property
    def block_hashes(self) -> Sequence[bytes]:
        """The hashes of its blocks, from the first, as far as they are known."""


class Prefix(NamedTuple):
    """A request of an engine that has no class for one: the pages that are looked for, and at least one token behind them."""

    request_id: str
    num_tokens: int
    block_hashes: Sequence[bytes]

    @classmethod
    def of(cls, request_id: str, hashes: "Iterable[bytes | str | int]", page_tokens: int) -> Self:
        """The prefix of these pages.

        Args:
            hashes: one for each page, from the first, as `hash_bytes` takes them.
            page_tokens: how many tokens a page has.

        Raises:
            InvalidArgument: something is no hash.
        """
        made = all_hash_bytes(list(hashes))
        return cls(request_id, len(made) * page_tokens + 1, made)


class Keys:
    """The keys of blocks with the weights that the engine has now."""

    def __init__(self, epochs: Epochs | None = None) -> None:
        """`epochs`: the weights of the engine; None: they never change while it runs."""
        self._epochs = epochs if epochs is not None else Epochs({})

    def salt(self, request: Sought) -> bytes | None:
        """Of the keys of what is computed for a request now; None: nobody knows with which weights that is.

        An engine with adapters overrides it: their blocks are others (`kvtier.engine.epochs.Adapters`).
        """
        return self._epochs.salt

    def of(self, request: Sought, group: Group, begin: int, end: int) -> list[bytes]:
        """The keys of a request's blocks of a group, from `begin` to `end`."""
        each = group.block_hashes
        hashes = request.block_hashes[begin:end] if each == 1 else request.block_hashes[(begin + 1) * each - 1 : end * each : each]
        return salted(self.salt(request) or b"", hashes)


def hash_bytes(value: bytes | str | int) -> bytes:
    """A hash as the daemon has it, 1 to 32 bytes.

    Args:
        value: bytes are taken as they are, text as hexadecimal digits, and a whole number as 16 bytes, the most significant first.

    Raises:
        InvalidArgument: it is longer than 32 bytes, empty, or no hash.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 1 << 128:
            raise InvalidArgument(f"the hash of a block is {value}; expected a number from 0 and below 2^128")
        return value.to_bytes(16, "big")
    if isinstance(value, str):
        try:
            made = bytes.fromhex(value)
        except ValueError:
            raise InvalidArgument(f"the hash of a block is {value!r}; expected hexadecimal digits") from None
    elif isinstance(value, bytes):
        made = value
    else:
        raise InvalidArgument(f"the hash of a block is {value!r}; expected bytes, hexadecimal digits or a whole number")
    if not 1 <= len(made) <= KEY_BYTES_MAX:
        raise InvalidArgument(f"the hash of a block has {len(made)} bytes; expected 1 to {KEY_BYTES_MAX}")
    return made


def all_hash_bytes(values: "Sequence[bytes | str | int]") -> list[bytes]:
    """As `hash_bytes` of each. Digits, as an engine makes them, are read without a call in Python for each hash.

    Raises:
        InvalidArgument: one of them is longer than 32 bytes, empty, or no hash.
    """
    made = keys_of_digits(values)
    return [hash_bytes(one) for one in values] if made is None else made
