"""What the scheduler's side and the workers' sides of the connector tell each other."""

from dataclasses import dataclass, field

from kvtier.engine.transfers import Transfer


@dataclass(slots=True)
class Plan:
    """What the workers do in one step of the engine."""

    step: int = 0
    """the step's number, from 1; 0: of no step"""
    loads: list[Transfer] = field(default_factory=list)
    by_layer: list[str] = field(default_factory=list)
    """requests whose loads begin in this step, the first layers of all blocks first"""
    computed: list[str] = field(default_factory=list)
    """of such requests, those that are computed in this step for the first time: it may wait for their layers one by one"""
    waiting: list[str] = field(default_factory=list)
    """of such requests, those that have their blocks still, and are computed in a later step"""
    void: list[str] = field(default_factory=list)
    """requests whose loads, begun or not, must fail: what they bring was computed with weights that may be others by now"""
    weigh: int = 0
    """the workers say which weights they have, in their answer to this question, before they compute; 0: nobody asks"""
    stores: list[Transfer] = field(default_factory=list)
    late: list[Transfer] = field(default_factory=list)
    """stores of requests that have ended: others may get their blocks from this step on, and not before"""
    reused: list[int] = field(default_factory=list)
    """blocks that are written anew from this step on: what is still being stored from them comes first"""
    reuses_any: bool = False
    """whether another connector writes to blocks that nobody has named"""
    idle: bool = False
    """whether the engine computes nothing in this step"""
    allocates: bool = False
    """whether requests got blocks for it, to be computed or loaded, by whatever connector"""


@dataclass(frozen=True, slots=True)
class Shard:
    """The namespace of one rank's part of a group's blocks, as its worker made it of the tensors that it has."""

    name: str
    block_bytes: int
    properties: dict[str, str]
    writes: bool
    """whether this rank stores: of ranks with equal parts only one does"""
    weights: str = ""
    """the digest of the weights in its memory when it began; empty: unknown"""
    advice: str = ""
    """what to tell who runs the engine"""
