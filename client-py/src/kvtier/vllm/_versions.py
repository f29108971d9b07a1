"""Which vLLM releases this connector was run with."""

import re

OLDEST = (0, 24)
NEWEST = (0, 32)


def refusal(version: str) -> str:
    """Why the connector can't serve this release; empty where it can."""
    found = _release(version)
    if found is not None and found < OLDEST:
        return f"kvtier.vllm serves vLLM {_text(OLDEST)} to {_text(NEWEST)}; this is {version}: upgrade vLLM"
    return ""


def warning(version: str) -> str:
    """What to say of a release that nobody has run the connector with; empty where there is nothing to say."""
    found = _release(version)
    if found is None or found > NEWEST:
        return f"kvtier.vllm was made for vLLM {_text(OLDEST)} to {_text(NEWEST)}; this is {version}"
    return ""


def _release(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version)
    return None if found is None else (int(found[1]), int(found[2]))


def _text(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"
