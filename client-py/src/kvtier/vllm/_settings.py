"""What ``kv_connector_extra_config`` may say to this connector."""

from dataclasses import dataclass

from kvtier.engine import settings


@dataclass(frozen=True, slots=True)
class Settings(settings.Settings):
    """Those of all engines, and vLLM's own."""

    cross_layer_blocks: bool = True
    """whether to ask vLLM for blocks that hold all layers in one piece; on a GPU, and where vLLM offers it"""
