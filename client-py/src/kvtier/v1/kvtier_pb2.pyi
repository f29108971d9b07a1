from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatusCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATUS_OK: _ClassVar[StatusCode]
    STATUS_MISS: _ClassVar[StatusCode]
    STATUS_PENDING: _ClassVar[StatusCode]
    STATUS_EXISTS: _ClassVar[StatusCode]
    STATUS_BUSY: _ClassVar[StatusCode]
    STATUS_DEADLINE: _ClassVar[StatusCode]
    STATUS_CANCELLED: _ClassVar[StatusCode]
    STATUS_UNAVAILABLE: _ClassVar[StatusCode]
    STATUS_NAMESPACE_UNKNOWN: _ClassVar[StatusCode]
    STATUS_NAMESPACE_MISMATCH: _ClassVar[StatusCode]
    STATUS_INVALID_ARGUMENT: _ClassVar[StatusCode]
    STATUS_CORRUPT: _ClassVar[StatusCode]
    STATUS_STALE: _ClassVar[StatusCode]
    STATUS_DENIED: _ClassVar[StatusCode]
    STATUS_VERSION_MISMATCH: _ClassVar[StatusCode]
    STATUS_SESSION_ENDED: _ClassVar[StatusCode]
    STATUS_IO_ERROR: _ClassVar[StatusCode]
    STATUS_TOO_LARGE: _ClassVar[StatusCode]
    STATUS_INTERNAL: _ClassVar[StatusCode]
    STATUS_NOT_ADMITTED: _ClassVar[StatusCode]
    STATUS_OVER_QUOTA: _ClassVar[StatusCode]

class Tier(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIER_NONE: _ClassVar[Tier]
    TIER_GPU: _ClassVar[Tier]
    TIER_HOST: _ClassVar[Tier]
    TIER_SSD: _ClassVar[Tier]
    TIER_OBJECT: _ClassVar[Tier]
    TIER_NODE: _ClassVar[Tier]

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]
    PRIORITY_LOW: _ClassVar[Priority]
STATUS_OK: StatusCode
STATUS_MISS: StatusCode
STATUS_PENDING: StatusCode
STATUS_EXISTS: StatusCode
STATUS_BUSY: StatusCode
STATUS_DEADLINE: StatusCode
STATUS_CANCELLED: StatusCode
STATUS_UNAVAILABLE: StatusCode
STATUS_NAMESPACE_UNKNOWN: StatusCode
STATUS_NAMESPACE_MISMATCH: StatusCode
STATUS_INVALID_ARGUMENT: StatusCode
STATUS_CORRUPT: StatusCode
STATUS_STALE: StatusCode
STATUS_DENIED: StatusCode
STATUS_VERSION_MISMATCH: StatusCode
STATUS_SESSION_ENDED: StatusCode
STATUS_IO_ERROR: StatusCode
STATUS_TOO_LARGE: StatusCode
STATUS_INTERNAL: StatusCode
STATUS_NOT_ADMITTED: StatusCode
STATUS_OVER_QUOTA: StatusCode
TIER_NONE: Tier
TIER_GPU: Tier
TIER_HOST: Tier
TIER_SSD: Tier
TIER_OBJECT: Tier
TIER_NODE: Tier
PRIORITY_NORMAL: Priority
PRIORITY_HIGH: Priority
PRIORITY_LOW: Priority

class Outcome(_message.Message):
    __slots__ = ("status", "text")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    status: StatusCode
    text: str
    def __init__(self, status: _Optional[_Union[StatusCode, str]] = ..., text: _Optional[str] = ...) -> None: ...

class BlockResult(_message.Message):
    __slots__ = ("status", "tier")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    status: StatusCode
    tier: Tier
    def __init__(self, status: _Optional[_Union[StatusCode, str]] = ..., tier: _Optional[_Union[Tier, str]] = ...) -> None: ...

class Keys(_message.Message):
    __slots__ = ("namespace_id", "group", "keys", "parent", "depth")
    NAMESPACE_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    namespace_id: int
    group: int
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    parent: bytes
    depth: int
    def __init__(self, namespace_id: _Optional[int] = ..., group: _Optional[int] = ..., keys: _Optional[_Iterable[bytes]] = ..., parent: _Optional[bytes] = ..., depth: _Optional[int] = ...) -> None: ...

class PingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingResponse(_message.Message):
    __slots__ = ("outcome", "version", "protocol", "chunk_bytes_max")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CHUNK_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    version: str
    protocol: str
    chunk_bytes_max: int
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., version: _Optional[str] = ..., protocol: _Optional[str] = ..., chunk_bytes_max: _Optional[int] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("name", "block_bytes", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    block_bytes: int
    properties: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., block_bytes: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("outcome", "namespace_id", "chunk_bytes_max")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_ID_FIELD_NUMBER: _ClassVar[int]
    CHUNK_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    namespace_id: int
    chunk_bytes_max: int
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., namespace_id: _Optional[int] = ..., chunk_bytes_max: _Optional[int] = ...) -> None: ...

class NamespaceRequest(_message.Message):
    __slots__ = ("namespace_id", "operation_id")
    NAMESPACE_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    namespace_id: int
    operation_id: int
    def __init__(self, namespace_id: _Optional[int] = ..., operation_id: _Optional[int] = ...) -> None: ...

class OutcomeResponse(_message.Message):
    __slots__ = ("outcome",)
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ...) -> None: ...

class CountResponse(_message.Message):
    __slots__ = ("outcome", "blocks")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    blocks: int
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., blocks: _Optional[int] = ...) -> None: ...

class KeysRequest(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ...) -> None: ...

class RetainRequest(_message.Message):
    __slots__ = ("keys", "lifetime_ns")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_NS_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    lifetime_ns: int
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., lifetime_ns: _Optional[int] = ...) -> None: ...

class BlocksResponse(_message.Message):
    __slots__ = ("outcome", "blocks")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    blocks: _containers.RepeatedCompositeFieldContainer[BlockResult]
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., blocks: _Optional[_Iterable[_Union[BlockResult, _Mapping]]] = ...) -> None: ...

class LookupResponse(_message.Message):
    __slots__ = ("outcome", "blocks", "leading_run", "estimated_load_ns")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    LEADING_RUN_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_LOAD_NS_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    blocks: _containers.RepeatedCompositeFieldContainer[BlockResult]
    leading_run: int
    estimated_load_ns: int
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., blocks: _Optional[_Iterable[_Union[BlockResult, _Mapping]]] = ..., leading_run: _Optional[int] = ..., estimated_load_ns: _Optional[int] = ...) -> None: ...

class FindNodesRequest(_message.Message):
    __slots__ = ("keys", "limit")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    limit: int
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., limit: _Optional[int] = ...) -> None: ...

class FindNodesResponse(_message.Message):
    __slots__ = ("outcome", "nodes")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    nodes: _containers.RepeatedCompositeFieldContainer[NodeHold]
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., nodes: _Optional[_Iterable[_Union[NodeHold, _Mapping]]] = ...) -> None: ...

class NodeHold(_message.Message):
    __slots__ = ("name", "address", "is_self", "run", "memory_run", "estimated_load_ns")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    IS_SELF_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMORY_RUN_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_LOAD_NS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    is_self: bool
    run: int
    memory_run: int
    estimated_load_ns: int
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., is_self: bool = ..., run: _Optional[int] = ..., memory_run: _Optional[int] = ..., estimated_load_ns: _Optional[int] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("keys", "operation_id", "leading_run", "no_wait", "priority", "expected_from")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    LEADING_RUN_FIELD_NUMBER: _ClassVar[int]
    NO_WAIT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FROM_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    operation_id: int
    leading_run: bool
    no_wait: bool
    priority: Priority
    expected_from: str
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., operation_id: _Optional[int] = ..., leading_run: bool = ..., no_wait: bool = ..., priority: _Optional[_Union[Priority, str]] = ..., expected_from: _Optional[str] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("refusal", "block", "status", "tier", "offset", "data", "crc32c", "last")
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    refusal: Outcome
    block: int
    status: StatusCode
    tier: Tier
    offset: int
    data: bytes
    crc32c: int
    last: bool
    def __init__(self, refusal: _Optional[_Union[Outcome, _Mapping]] = ..., block: _Optional[int] = ..., status: _Optional[_Union[StatusCode, str]] = ..., tier: _Optional[_Union[Tier, str]] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., crc32c: _Optional[int] = ..., last: bool = ...) -> None: ...

class PutRequest(_message.Message):
    __slots__ = ("header", "chunk")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: PutHeader
    chunk: PutChunk
    def __init__(self, header: _Optional[_Union[PutHeader, _Mapping]] = ..., chunk: _Optional[_Union[PutChunk, _Mapping]] = ...) -> None: ...

class PutHeader(_message.Message):
    __slots__ = ("keys", "operation_id", "annotations", "importance")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    operation_id: int
    annotations: _containers.RepeatedScalarFieldContainer[bytes]
    importance: int
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., operation_id: _Optional[int] = ..., annotations: _Optional[_Iterable[bytes]] = ..., importance: _Optional[int] = ...) -> None: ...

class PutChunk(_message.Message):
    __slots__ = ("block", "offset", "data", "crc32c")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    block: int
    offset: int
    data: bytes
    crc32c: int
    def __init__(self, block: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., crc32c: _Optional[int] = ...) -> None: ...

class PutResponse(_message.Message):
    __slots__ = ("outcome", "blocks")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    blocks: _containers.RepeatedCompositeFieldContainer[BlockResult]
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., blocks: _Optional[_Iterable[_Union[BlockResult, _Mapping]]] = ...) -> None: ...

class ReportLoadsRequest(_message.Message):
    __slots__ = ("namespace_id", "blocks", "tokens", "prefill_ns", "load_ns")
    NAMESPACE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREFILL_NS_FIELD_NUMBER: _ClassVar[int]
    LOAD_NS_FIELD_NUMBER: _ClassVar[int]
    namespace_id: int
    blocks: int
    tokens: int
    prefill_ns: int
    load_ns: int
    def __init__(self, namespace_id: _Optional[int] = ..., blocks: _Optional[int] = ..., tokens: _Optional[int] = ..., prefill_ns: _Optional[int] = ..., load_ns: _Optional[int] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("operation_id",)
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    def __init__(self, operation_id: _Optional[int] = ...) -> None: ...

class StatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatsResponse(_message.Message):
    __slots__ = ("outcome", "json", "counters")
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    json: str
    counters: _containers.ScalarMap[str, int]
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., json: _Optional[str] = ..., counters: _Optional[_Mapping[str, int]] = ...) -> None: ...
