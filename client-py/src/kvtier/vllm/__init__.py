"""vLLM's KV connector on kvtier. vLLM loads it by name; nothing of vLLM is changed:

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "KvtierConnector", "kv_role": "kv_both",
        "kv_connector_module_path": "kvtier.vllm"}'

`kvtier.vllm._settings.Settings` lists what ``kv_connector_extra_config`` may hold.
"""

from typing import Any

__all__ = ["KvtierConnector"]


def __getattr__(name: str) -> Any:
    # Only who asks for the connector needs vLLM.
    if name == "KvtierConnector":
        from kvtier.vllm._connector import KvtierConnector

        return KvtierConnector
    raise AttributeError(f"module 'kvtier.vllm' has no attribute {name!r}")
