"""What ``kv_connector_extra_config`` may say to this connector."""

from dataclasses import dataclass
from typing import ClassVar

from kvtier.engine import settings


@dataclass(frozen=True, slots=True)
class Settings(settings.Settings):
    """Those of all engines, and vLLM's own."""

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = settings.Settings.CHOICES | {
        "load_by_layer": ("off", "auto", "on"), "store_by_layer": ("off", "auto", "on"),
    }  # fmt: skip

    cross_layer_blocks: bool = True
    """whether to ask vLLM for blocks that hold all layers in one piece; on a GPU, and where vLLM offers it"""
    load_by_layer: str = "off"
    """whether the engine computes the first layers while blocks of the others come, so that all requests of this step wait for these
    blocks: 'off', 'on', or 'auto': where no other request is computed, and the load is long"""
    store_by_layer: str = "off"
    """whether the first layers of blocks are stored while the engine computes the others: 'off', 'on', or 'auto': on a GPU, for requests
    that another engine goes on with"""
