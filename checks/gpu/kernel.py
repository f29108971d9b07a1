"""Compiles CUDA C++ into PTX through NVRTC, and notes in it which source it was made of.  Run by scripts/build-kernel."""

import ctypes
import hashlib
import pathlib
import sys

OPTIONS = [b"--gpu-architecture=compute_75", b"--std=c++17"]


def main(source: pathlib.Path, target: pathlib.Path) -> None:
    import nvidia.cuda_nvrtc

    folder = pathlib.Path(list(nvidia.cuda_nvrtc.__path__)[0]) / "lib"
    # The compiler opens its built-in functions by name.
    ctypes.CDLL(str(next(folder.glob("libnvrtc-builtins.so.*"))), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(folder / "libnvrtc.so.12"))
    code = source.read_bytes()
    program = ctypes.c_void_p()

    def check(result: int) -> None:
        if result != 0:
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            sys.exit(f"NVRTC error {result}\n{log.value.decode()}")

    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), code, source.name.encode(), 0, None, None))
    check(nvrtc.nvrtcCompileProgram(program, len(OPTIONS), (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)))
    size = ctypes.c_size_t()
    check(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)))
    ptx = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetPTX(program, ptx))
    header = f"// Made by scripts/build-kernel of {source.name}, SHA-256 {hashlib.sha256(code).hexdigest()}\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(header + ptx.value.decode())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
