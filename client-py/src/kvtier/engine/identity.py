"""Which engines share blocks: everything that decides about a block's bytes and keys, as a namespace.

Engines whose identities differ must not find each other's blocks. Two ways keep them apart. Weights are a part of the namespace's
name, so engines with other weights never meet. All the rest are the namespace's properties: the daemon refuses an engine that opens a
namespace with other ones, and names the property that differs.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvtier._errors import NamespaceMismatch
from kvtier.engine.groups import Rule

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Identity:
    """What decides about the bytes and the keys of an engine's blocks, on all of its ranks. Texts are put on one line."""

    engine: str
    """the engine's program, such as ``vllm``: each hashes and lays out blocks in its own way"""
    model: str
    """what the operator calls the model. Only the namespace's name has it: it says nothing of the weights"""
    model_config: str
    """a digest of the model's own configuration: its shapes, and what positions and activations are made of"""
    weights: str
    """which weights these are: a commit, their files (`kvtier.engine.weights`), their bytes (`kvtier.engine.loaded`), or a name that the
    operator gives them. Empty: nobody knows; then the blocks are this engine's alone"""
    dtype: str
    """of the elements of the KV cache"""
    page_tokens: int
    """how many tokens a block has"""
    hash: str
    """how blocks are hashed, such as ``sha256_cbor``"""
    hash_seed: str | None
    """what hashes depend on beside the tokens; None: on something random, so that no other engine can make them"""
    alone: str
    """tells this engine from all others, where nobody knows its weights; random"""
    unseeded: str = ""
    """tells this engine from all others, where its hashes are random"""
    namespace: str = ""
    """the first part of the namespace's name, where the operator gives one; empty: the engine's and the model's names"""
    processor: str = "none"
    """a digest of what turns images and sounds into the model's input; none: the model has only tokens"""
    adapters: str = "by content"
    """how adapters are told apart. By content: the keys do it (`kvtier.engine.epochs.Adapters`)"""
    salt: str = "in keys"
    """how tenants with a salt of their own are told apart. In keys: the engine's hashes do it"""
    more: Mapping[str, str] = field(default_factory=dict)
    """further properties, by name"""

    @property
    def weights_text(self) -> str:
        """The weights as a property has them."""
        return self.weights or f"unknown, of this engine alone: {self.alone}"

    @property
    def suffix(self) -> str:
        """What ends the names of the namespaces of these weights."""
        return suffix_of(f"{self.weights_text} {self.processor}")

    @property
    def properties(self) -> dict[str, str]:
        """Those that all ranks and pools have alike."""
        return {
            "engine": self.engine,
            "model_config": self.model_config,
            "weights": self.weights_text,
            "processor": self.processor,
            "dtype": self.dtype,
            "block_tokens": str(self.page_tokens),
            "hash": self.hash,
            "hash_seed": "none, of this engine alone" if self.hash_seed is None else self.hash_seed,
            "lora": self.adapters,
            "salt": self.salt,
            **self.more,
        }

    def of_model(self, layout: str, form: str, pool: "PoolText | None" = None, encoding: str = "") -> "Named":
        """The namespace of the whole model's blocks, which all ranks put together.

        Args:
            layout: what decides about a block's bytes beside their form, such as the element type.
            form: that of the blocks (`kvtier.torch.Form`).
            pool: which of the model's pools the blocks are of; None: there is one.
            encoding: how the blocks are encoded (`kvtier.engine.encoding.encoded`); empty: they are raw. The name says it, too: engines
                with and without an encoding are not refused, and do not find each other's blocks.
        """
        if not encoding:
            return self._named(pool or ONE_POOL, "", {"layout": layout, "form": form})
        return self._named(pool or ONE_POOL, f"/{encoding.split()[0]}", {"layout": layout, "form": form, "encoding": encoding})

    def of_rank(self, layout: str, place: "Place", pool: "PoolText | None" = None) -> "Named":
        """The namespace of one rank's part of the blocks.

        Args:
            layout: how a block's bytes lie in the rank's memory: element type, extents, and the order of the axes.
            place: the rank. Ranks with equal bytes say one place, and one of them stores.
            pool: which of the model's pools the blocks are of; None: there is one.
        """
        is_whole = place.stages * place.parts == 1
        ending = "" if is_whole else f"/pp{place.stage}tp{place.part}"
        ranks = {"pipeline": f"{place.stage} of {place.stages}", "tensor": f"{place.part} of {place.parts}"}
        return self._named(pool or ONE_POOL, ending, {"layout": layout, **ranks})

    def _named(self, pool: "PoolText", ending: str, more: Mapping[str, str]) -> "Named":
        name = self.namespace or f"{self.engine}/{self.model}"
        if self.hash_seed is None:
            name += f"/unseeded-{self.unseeded or self.alone}"
        properties = {**self.properties, **pool.properties, **more}
        return Named(f"{one_line(name + pool.ending + ending)}/{self.suffix}", {key: one_line(text) for key, text in properties.items()})


class Named(NamedTuple):
    """A namespace's name and properties, as `kvtier.Client.namespace` takes them."""

    name: str
    properties: dict[str, str]


class Place(NamedTuple):
    """One rank's part of a block."""

    stage: int = 0
    """the rank's stage of the pipeline: some of the layers"""
    stages: int = 1
    part: int = 0
    """the rank's part of each layer: some of the heads"""
    parts: int = 1


class PoolText(NamedTuple):
    """What tells the blocks of one pool, or group, from those of the model's other ones."""

    ending: str
    """of the namespace's name; empty for a model with one pool"""
    properties: dict[str, str]

    @classmethod
    def of(cls, number: int, count: int, block_tokens: int, layers: Sequence[str], rule: Rule | None) -> "PoolText":
        """
        Args:
            number: the pool's place among the `count` pools of the model.
            block_tokens: how many tokens its blocks have.
            layers: the names of its layers, in their order.
            rule: which of its blocks an engine needs; None: nobody knows.
        """
        if count == 1:
            return ONE_POOL
        return cls(
            f"/group-{number}",
            {
                "block_tokens": str(block_tokens),
                "group": f"{number} of {count}",
                "layers": hashlib.sha256(" ".join(layers).encode()).hexdigest()[:_DIGITS],
                "rule": "none" if rule is None else rule.text,
            },
        )


ONE_POOL = PoolText("", {})
"""of a model with one pool"""


class Texts(NamedTuple):
    """What a connector calls things when it talks to who configures its engine."""

    where: str
    """where the engine's configuration has the settings of `kvtier.engine.settings.Settings`, such as ``kv_connector_extra_config``"""
    seed: str = ""
    """what sets the seed of the engine's hashes, such as ``PYTHONHASHSEED``; empty: nothing does"""

    def mismatch(self, reason: str) -> str:
        """A refusal of the daemon, in the words of who configures the engine. `reason` names the property that differs."""
        hint = ""
        if "hash_seed" in reason and self.seed:
            hint = f" The engines have different values of {self.seed}, so they can never find each other's blocks."
        return (
            f"kvtier does not mix blocks of engines with different configurations: {reason}.{hint} Give the engines the same "
            f"configuration, or set another kvtier.namespace in {self.where}."
        )

    def weights(self, model: str, named: str, files: str, loaded: str) -> "Weights":
        """What is known of an engine's weights, and what to tell who runs it.

        Args:
            model: its name or path.
            named: what the operator calls the weights (`Settings.weights`); empty: nothing.
            files: what their commit or files say (`kvtier.engine.weights.described`); empty: nothing.
            loaded: the digest of what is in the engine's memory (`kvtier.engine.loaded.digest`); empty: unknown.
        """
        if named:
            return Weights(f"named {named}", "")
        if files:
            return Weights(files, "")
        if loaded:
            return Weights(
                f"loaded {loaded}",
                f"no commit of the weights of {model!r} is known, and this process finds no files of them. So the bytes in this engine's "
                "memory identify the weights. An engine that holds the same weights in another form, for example on another kind of GPU, "
                "does not find these blocks. To share blocks anyway, set kvtier.weights to one name in all engines with these weights.",
            )
        return Weights(
            "",
            f"the weights of {model!r} cannot be identified: no commit is known, this process finds no files, and the weights in memory "
            "cannot be read. Other engines cannot find this engine's blocks, and neither can this engine after a restart. Set "
            f"kvtier.weights in {self.where} to one name in all engines with these weights.",
        )


class Weights(NamedTuple):
    """What tells weights from others; equal for all engines that have them."""

    text: str
    """as `Identity.weights` takes it; empty: nothing is known of them"""
    advice: str
    """what to tell who runs the engine; empty: nothing"""


def refuse(error: NamespaceMismatch, policy: str, texts: Texts, log: logging.Logger) -> None:
    """What an engine does when the namespace belongs to engines of another configuration.

    Args:
        policy: ``fail``: it must not start; ``serve``: it starts, and uses no kvtier (`kvtier.engine.settings.Settings.mismatch`).

    Raises:
        RuntimeError: the policy is ``fail``; the text names the property that differs and says what to do.
    """
    text = texts.mismatch(str(error))
    if policy == "fail":
        raise RuntimeError(text) from None
    log.error("%s", text)


def suffix_of(weights: str) -> str:
    """What ends the names of namespaces of these weights."""
    return f"weights-{hashlib.sha256(weights.encode()).hexdigest()[:_DIGITS]}"


def one_line(text: str) -> str:
    """A property's value without line feeds; ``none`` where it is empty."""
    return " ".join(text.split()) or "none"
