"""kvtier as a storage backend of SGLang's hierarchical cache (HiCache).

    --enable-hierarchical-cache --hicache-storage-backend dynamic
    --hicache-storage-backend-extra-config '{"backend_name": "kvtier", "module_path": "kvtier.sglang", "class_name": "KvtierStorage",
                                             "interface_v1": 1}'
"""

from kvtier.sglang._storage import KvtierStorage

__all__ = ["KvtierStorage"]
