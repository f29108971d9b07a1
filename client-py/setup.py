"""Builds the extension against the stable ABI: one binary serves Python 3.11 and later."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "kvtier._core",
            sources=["src/kvtier/_core.c", "src/kvtier/_crc32c.c"],
            depends=["src/kvtier/_crc32c.h", "src/kvtier/_protocol.h"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            extra_compile_args=["-std=gnu11", "-O3", "-Wall", "-Wextra", "-fvisibility=hidden"],
            py_limited_api=True,
        )
    ]
)
