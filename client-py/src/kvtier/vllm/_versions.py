"""Which vLLM releases this connector was run with."""

import re

OLDEST = (0, 24)
NEWEST = (0, 32)


def refusal(version: str) -> str:
    """Why the connector does not support this release; empty where it does."""
    found = _release(version)
    if found is not None and found < OLDEST:
        return f"this is vLLM {version}, and kvtier.vllm supports {_text(OLDEST)} to {_text(NEWEST)}: upgrade vLLM"
    return ""


def warning(version: str) -> str:
    """What to say of a release that nobody has run the connector with; empty where there is nothing to say."""
    found = _release(version)
    if found is None or found > NEWEST:
        return f"this is vLLM {version}, and kvtier.vllm was tested with {_text(OLDEST)} to {_text(NEWEST)}; it may not work"
    return ""


def _release(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version)
    return None if found is None else (int(found[1]), int(found[2]))


def _text(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"
