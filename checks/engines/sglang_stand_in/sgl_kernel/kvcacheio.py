"""As the package: names that can be imported, and calls that fail."""

from typing import Any

from sgl_kernel import absent


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return absent(name)
