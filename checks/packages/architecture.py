"""The processor architectures that packages are made for, and what of each jar is packed for them."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """One architecture, under the names that others have for it."""

    debian: str
    """Debian's name, which the packages and the options have."""
    kernel: str
    """What `uname -m` says; also in names of wheels."""
    elf: int
    """The number in the head of its programs and libraries (`e_machine`)."""
    natives: tuple[str, ...]
    """The libraries inside of jars that are loaded: of Linux with glibc."""
    unpacked: tuple[tuple[str, str], ...]
    """Libraries that the loader finds in the folder natives, with their names there."""

    def keeps(self, name: str) -> bool:
        """Whether this library inside of a jar is packed there."""
        return any(re.fullmatch(pattern, name) for pattern in self.natives)

    def has_jar(self, name: str) -> bool:
        """Whether a jar is packed: one with a classifier is of one architecture."""
        others = "|".join(one.kernel for one in ALL if one is not self)
        return not re.search(rf"-linux-({others})\.jar$", name)


AMD64 = Architecture(
    "amd64",
    "x86_64",
    62,
    (
        r"linux/x86_64/glibc/libaws-crt-jni\.so",
        r"linux/amd64/libzstd-jni-[^/]*\.so",
        r"lib/libJCudaDriver-[^/]*-linux-x86_64\.so",
        r"com/sun/jna/linux-x86-64/libjnidispatch\.so",
        r"jni/x86_64-Linux/libjffi-[^/]*\.so",
        r"native/linux-x86_64/libkvtier_core\.so",
        r"META-INF/native/lib[^/]*linux_x86_64[^/]*\.so",
    ),
    (("librocksdbjni-linux64.so", "librocksdbjni.so"),),
)
# JCuda has no library for it.
ARM64 = Architecture(
    "arm64",
    "aarch64",
    183,
    (
        r"linux/armv8/glibc/libaws-crt-jni\.so",
        r"linux/aarch64/libzstd-jni-[^/]*\.so",
        r"com/sun/jna/linux-aarch64/libjnidispatch\.so",
        r"jni/aarch64-Linux/libjffi-[^/]*\.so",
        r"native/linux-aarch64/libkvtier_core\.so",
        r"META-INF/native/lib[^/]*linux_aarch_64[^/]*\.so",
    ),
    (("librocksdbjni-linux-aarch64.so", "librocksdbjni.so"),),
)
ALL = (AMD64, ARM64)


def of(name: str) -> Architecture:
    """The architecture that Debian calls so."""
    for one in ALL:
        if one.debian == name:
            return one
    raise ValueError(f"there are packages for {' and '.join(one.debian for one in ALL)}, and none for '{name}'")


def of_library(library: bytes) -> Architecture | None:
    """The architecture of a library; None for one that packages are not made for."""
    if library[:4] != b"\x7fELF":
        return None
    number = int.from_bytes(library[18:20], "little")
    return next((one for one in ALL if one.elf == number), None)
