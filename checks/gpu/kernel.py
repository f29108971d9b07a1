"""Compiles CUDA C++ into PTX through NVRTC, and notes in it which sources it was made of.  Run by scripts/build-kernel."""

import ctypes
import hashlib
import pathlib
import re
import sys

OPTIONS = [b"--gpu-architecture=compute_75", b"--std=c++17", b"--device-as-default-execution-space"]


def sources_of(source: pathlib.Path) -> list[pathlib.Path]:
    """A source and the headers that it includes, also by way of others, each once."""
    found = [source]
    for path in found:
        headers = (path.with_name(name) for name in re.findall(r'^#include "(.+)"$', path.read_text(), re.MULTILINE))
        found.extend(header for header in headers if header not in found)
    return found


def main(source: pathlib.Path, target: pathlib.Path) -> None:
    import nvidia.cuda_nvrtc

    folder = pathlib.Path(list(nvidia.cuda_nvrtc.__path__)[0]) / "lib"
    # The compiler opens its built-in functions by name.
    ctypes.CDLL(str(next(folder.glob("libnvrtc-builtins.so.*"))), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(folder / "libnvrtc.so.12"))
    sources = sources_of(source)
    program = ctypes.c_void_p()

    def check(result: int) -> None:
        if result != 0:
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            sys.exit(f"NVRTC error {result}\n{log.value.decode()}")

    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None))
    options = [*OPTIONS, f"--include-path={source.parent}".encode()]
    check(nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)))
    size = ctypes.c_size_t()
    check(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)))
    ptx = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetPTX(program, ptx))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    first = f"// Made by scripts/build-kernel of {', '.join(path.name for path in sources)}, SHA-256 {digest}\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(first + ptx.value.decode())


if __name__ == "__main__":
    for name in sys.argv[1:-1]:
        main(pathlib.Path(name), pathlib.Path(sys.argv[-1], pathlib.Path(name).stem + ".ptx"))
