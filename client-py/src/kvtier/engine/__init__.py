"""What connectors of all engines share. Nothing here imports an engine.

A connector has these parts: an `Identity` makes the namespaces of its blocks. `Pools` registers the memory of each rank. A search says
what there is of a request and holds it: `Search` for who waits, `Searches` for an engine that asks in each step. `Transfers` copies
blocks. A `Guard` judges the daemon. `PrefillSpeed` and `Savings` know what loads are worth. A `WishReader` reads what requests ask for,
and a `Retainer` keeps blocks for them. `kvtier.engine.testing` has the contract that
each connector keeps.
"""

from kvtier._polled import Polled
from kvtier.engine.encoding import Encoded, encoded
from kvtier.engine.epochs import Adapters, Epochs, joined, salted
from kvtier.engine.find import Search
from kvtier.engine.found import Found
from kvtier.engine.groups import ALL, LAST, Group, Need, Rule, chunk, longest, of_all_ranks, restorable, window
from kvtier.engine.guard import Guard
from kvtier.engine.identity import Identity, Named, Place, PoolText, Texts, Weights, refuse
from kvtier.engine.keys import Keys, Prefix, Sought, hash_bytes
from kvtier.engine.pools import Pool, Pools
from kvtier.engine.retainer import Retainer
from kvtier.engine.savings import Savings, TypicalSpeed
from kvtier.engine.search import Searches
from kvtier.engine.settings import Settings
from kvtier.engine.speed import PrefillSpeed
from kvtier.engine.transfers import STORED, Load, Store, Transfer, Transfers, usable_tokens
from kvtier.engine.units import Units
from kvtier.engine.wishes import Wishes, WishReader

__all__ = [
    "ALL",
    "LAST",
    "STORED",
    "Adapters",
    "Encoded",
    "Epochs",
    "Found",
    "Group",
    "Guard",
    "Identity",
    "Keys",
    "Load",
    "Named",
    "Need",
    "Place",
    "Polled",
    "Pool",
    "PoolText",
    "Pools",
    "PrefillSpeed",
    "Prefix",
    "Retainer",
    "Rule",
    "Savings",
    "Search",
    "Searches",
    "Settings",
    "Sought",
    "Store",
    "Texts",
    "Transfer",
    "Transfers",
    "TypicalSpeed",
    "Units",
    "Weights",
    "WishReader",
    "Wishes",
    "chunk",
    "encoded",
    "hash_bytes",
    "joined",
    "longest",
    "of_all_ranks",
    "refuse",
    "restorable",
    "salted",
    "usable_tokens",
    "window",
]
