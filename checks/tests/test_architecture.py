"""The packages for each processor architecture have its programs and dependencies."""

import platform
import sys
import zipfile
from pathlib import Path

import pytest

from checks.packages import architecture, contents
from checks.packages.architecture import AMD64, ARM64, Architecture

# As the jars of the daemon have them.
LIBRARIES = {
    "amd64": {
        "linux/x86_64/glibc/libaws-crt-jni.so",
        "linux/amd64/libzstd-jni-1.5.7-6.so",
        "com/sun/jna/linux-x86-64/libjnidispatch.so",
        "jni/x86_64-Linux/libjffi-1.2.so",
        "native/linux-x86_64/libkvtier_core.so",
    },
    "arm64": {
        "linux/armv8/glibc/libaws-crt-jni.so",
        "linux/aarch64/libzstd-jni-1.5.7-6.so",
        "com/sun/jna/linux-aarch64/libjnidispatch.so",
        "jni/aarch64-Linux/libjffi-1.2.so",
        "native/linux-aarch64/libkvtier_core.so",
    },
    "none": {"linux/armv8/musl/libaws-crt-jni.so", "darwin/aarch64/libzstd-jni-1.5.7-6.dylib", "jni/arm-Linux/libjffi-1.2.so"},
}
ROCKSDB = {"librocksdbjni-linux64.so": b"amd64", "librocksdbjni-linux-aarch64.so": b"arm64", "librocksdbjni-linux-aarch64-musl.so": b"musl"}


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    file = tmp_path / "some-1.0.jar"
    with zipfile.ZipFile(file, "w") as archive:
        for name in set.union(*LIBRARIES.values()):
            archive.writestr(name, b"library")
        for name, data in ROCKSDB.items():
            archive.writestr(name, data)
        archive.writestr("Some.class", b"class")
    return file


@pytest.mark.parametrize("of", architecture.ALL)
def test_ofAJar_onlyTheLibrariesOfTheArchitectureArePacked(jar: Path, tmp_path: Path, of: Architecture) -> None:
    natives = tmp_path / "natives"
    natives.mkdir()
    left_out = contents.pack_jar(jar, tmp_path / "packed.jar", natives, of)

    with zipfile.ZipFile(tmp_path / "packed.jar") as packed:
        assert set(packed.namelist()) == LIBRARIES[of.debian] | {"Some.class"}
    assert (natives / "librocksdbjni.so").read_bytes() == of.debian.encode()
    assert len(left_out) == len(set.union(*LIBRARIES.values())) + len(ROCKSDB) - len(LIBRARIES[of.debian])


def test_jarOfOneArchitecture_isPackedForItAlone() -> None:
    assert [one for one in architecture.ALL if one.has_jar("jcuda-natives-12.6.0-linux-x86_64.jar")] == [AMD64]
    assert [one for one in architecture.ALL if one.has_jar("any-1.0-linux-aarch64.jar")] == [ARM64]
    assert all(one.has_jar("jcuda-12.6.0.jar") for one in architecture.ALL)


def test_jarWithoutALibraryOfTheArchitecture_isRefused(tmp_path: Path) -> None:
    file = tmp_path / "other-1.0.jar"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("native/linux-riscv64/libother.so", b"library")
    with pytest.raises(SystemExit, match="other-1.0.jar has native libraries, and none of them is listed for arm64"):
        contents.pack_jar(file, tmp_path / "packed.jar", tmp_path, ARM64)


def test_libraryOfThisMachine_isOfItsArchitecture() -> None:
    found = architecture.of_library(Path(sys.executable).resolve().read_bytes())
    assert found is not None and found.kernel == platform.machine()
    assert architecture.of_library(b"no library") is None


def test_unknownArchitecture_isRefusedWithThoseThatThereAre() -> None:
    with pytest.raises(ValueError, match="there are packages for amd64 and arm64, and none for 'riscv64'"):
        architecture.of("riscv64")
