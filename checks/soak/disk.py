"""Disks that the soak can make fail, as truly as this machine allows."""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

_LOOP_SET_STATUS64 = 0x4C04
_LOOP_GET_STATUS64 = 0x4C05
_SIZE_LIMIT_OFFSET = 32
_LOOP_INFO_BYTES = 232
_THROTTLE = Path("/sys/fs/cgroup/blkio")


class Disk:
    """A folder; what can't be done to it here stands in ``missing``, with the reason."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.missing = {fault: "the disk is a folder of this machine: a small file system takes root and mount" for fault in ("full", "eio", "slow")}
        folder.mkdir()

    def fill(self) -> None:
        """Takes all space that is left."""
        with (self.folder / "filler").open("ab", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def fail(self) -> None:
        """Has the second half of the disk answer with EIO."""
        raise NotImplementedError

    def mend(self) -> None:
        raise NotImplementedError

    def slow(self, process: int, bytes_per_second: int) -> None:
        """Bounds what a process reads and writes a second, each."""
        raise NotImplementedError

    def fast(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Takes it away."""


class MountedDisk(Disk):
    """A file system of its own in memory: it can be full."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        super().__init__(folder)
        _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=700", "kvtier-soak", str(folder))
        self.missing = {fault: "the disk is a tmpfs: there is no loop device with a file system to be had" for fault in ("eio", "slow")}

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False)


class LoopDisk(Disk):
    """ext4 on a loop device, with direct IO down to its file: it can be full, slow, and fail with EIO."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        super().__init__(folder)
        self._size_bytes = size_bytes
        self._image = folder.with_suffix(".img")
        self._group: Path | None = None
        with self._image.open("wb") as image:
            os.posix_fallocate(image.fileno(), 0, size_bytes)
        self._device = _run("losetup", "--find", "--show", "--direct-io=on", str(self._image))
        try:
            _run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", self._device)
            # A write that failed must not make the rest read only: a disk that works again shall be used again.
            _run("mount", "-o", "errors=continue", self._device, str(folder))
        except OSError:
            self._detach()
            raise
        self.missing = {}
        try:
            self._group = _THROTTLE / f"kvtier-soak-{os.getpid()}"
            self._group.mkdir()
            (self._group / "blkio.throttle.read_bps_device").stat()
        except OSError as error:
            self._group = None
            self.missing = {"slow": f"there is no cgroup that bounds a device: {error}"}

    def fail(self) -> None:
        self._limit(self._size_bytes // 2)

    def mend(self) -> None:
        self._limit(0)

    def _limit(self, size_bytes: int) -> None:
        """Ends the device after size_bytes, 0 for its full size. Accesses behind the end are answered with EIO."""
        with open(self._device, "rb") as device:
            info = bytearray(_LOOP_INFO_BYTES)
            fcntl.ioctl(device, _LOOP_GET_STATUS64, info)
            ctypes.c_uint64.from_buffer(info, _SIZE_LIMIT_OFFSET).value = size_bytes
            fcntl.ioctl(device, _LOOP_SET_STATUS64, bytes(info))

    def slow(self, process: int, bytes_per_second: int) -> None:
        assert self._group is not None
        (self._group / "cgroup.procs").write_text(str(process))
        self._bound(bytes_per_second)

    def fast(self) -> None:
        self._bound(0)

    def _bound(self, bytes_per_second: int) -> None:
        assert self._group is not None
        number = os.stat(self._device).st_rdev
        for way in ("read", "write"):
            (self._group / f"blkio.throttle.{way}_bps_device").write_text(f"{os.major(number)}:{os.minor(number)} {bytes_per_second}")

    def _detach(self) -> None:
        subprocess.run(["losetup", "--detach", self._device], check=False)
        self._image.unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False)
        self._detach()
        if self._group is not None:
            with contextlib.suppress(OSError):
                for process in (self._group / "cgroup.procs").read_text().split():
                    (_THROTTLE / "cgroup.procs").write_text(process)
                self._group.rmdir()


def _run(*command: str) -> str:
    """What a command printed; an error with its words where it failed."""
    if shutil.which(command[0]) is None:
        raise OSError(f"there is no {command[0]}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def make_disk(folder: Path, size_bytes: int) -> Disk:
    """The best that can be had."""
    for kind in (LoopDisk, MountedDisk):
        try:
            return kind(folder, size_bytes)
        except OSError:
            folder.rmdir()
    return Disk(folder)
