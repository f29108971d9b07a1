"""Builds the extension against the stable ABI: one binary serves Python 3.11 and later."""

from pathlib import Path

from setuptools import Extension, setup

PARTS = ("module", "session", "guard", "calls", "digits", "request", "ring", "results", "slab", "copy", "message", "tensors", "granules", "crc32c", "encoding", "exact", "fp8")
SOURCES = Path("src/kvtier")

setup(
    ext_modules=[
        Extension(
            "kvtier._core",
            sources=[str(SOURCES / f"_{part}.c") for part in PARTS],
            depends=[str(SOURCES / f"_{header}.h") for header in ("core", "crc32c", "encoding", "granule", "protocol", "tensors")],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            extra_compile_args=["-std=gnu11", "-O3", "-Wall", "-Wextra", "-fvisibility=hidden"],
            py_limited_api=True,
        )
    ]
)
