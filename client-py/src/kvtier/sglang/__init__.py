"""kvtier in SGLang: as a storage backend of its hierarchical cache (HiCache), and as an external linker of its radix cache.

    --enable-hierarchical-cache --hicache-storage-backend dynamic
    --hicache-storage-backend-extra-config '{"backend_name": "kvtier", "module_path": "kvtier.sglang", "class_name": "KvtierStorage",
                                             "interface_v1": 1}'

    --enable-unified-cache-external-linker --unified-cache-external-linker-backend dynamic
    --unified-cache-external-linker-config '{"linker_module_path": "kvtier.sglang.linker", "linker": "KvtierLinker"}'
"""

from kvtier.sglang._storage import KvtierStorage

__all__ = ["KvtierStorage"]
