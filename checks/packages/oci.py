"""Writes container images as OCI layouts. Equal input gives equal bytes."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True)
class Entry:
    """A file, a folder or a link of a layer."""

    mode: int
    content: bytes = b""
    link: str = ""
    is_folder: bool = False
    user: int = 0
    group: int = 0


@dataclass
class Layer:
    """The files of a layer, by their names without a first '/'."""

    epoch: int
    entries: dict[str, Entry] = field(default_factory=dict)

    def folder(self, name: str, mode: int = 0o755, user: int = 0, group: int = 0) -> None:
        self.entries[name] = Entry(mode, is_folder=True, user=user, group=group)

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        self._parents(name)
        self.entries[name] = Entry(mode, content)

    def link(self, name: str, target: str) -> None:
        self._parents(name)
        self.entries[name] = Entry(0o777, link=target)

    def add(self, entry: tarfile.TarInfo, content: bytes) -> None:
        """Adds a file of another archive; its owner becomes root."""
        if entry.isdir():
            self.entries.setdefault(entry.name, Entry(entry.mode & 0o7777, is_folder=True))
        elif entry.issym():
            self.link(entry.name, entry.linkname)
        elif entry.islnk():
            target = self.entries[entry.linkname.removeprefix("./")]
            self.file(entry.name, target.content, target.mode)
        elif entry.isreg():
            self.file(entry.name, content, entry.mode & 0o7777)
        else:
            raise ValueError(f"{entry.name} is no file, folder or link")

    def _parents(self, name: str) -> None:
        for parent in reversed(PurePosixPath(name).parents):
            if str(parent) != ".":
                self.entries.setdefault(str(parent), Entry(0o755, is_folder=True))

    def tar(self) -> bytes:
        """The layer as a tar file. Entries are sorted: a folder comes before its files."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, one in sorted(self.entries.items()):
                info = tarfile.TarInfo(name)
                info.mode, info.mtime, info.uid, info.gid = one.mode, self.epoch, one.user, one.group
                if one.is_folder:
                    info.type = tarfile.DIRTYPE
                    archive.addfile(info)
                elif one.link:
                    info.type, info.linkname = tarfile.SYMTYPE, one.link
                    archive.addfile(info)
                else:
                    info.size = len(one.content)
                    archive.addfile(info, io.BytesIO(one.content))
        return out.getvalue()


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def as_json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Image:
    """An image: its blobs by digest, and the digest of its manifest."""

    blobs: Mapping[str, bytes]
    manifest: str
    reference: str

    @property
    def compressed_bytes(self) -> int:
        """The bytes that a registry sends."""
        return sum(len(blob) for blob in self.blobs.values())

    def index(self) -> bytes:
        described = {
            "mediaType": MANIFEST, "digest": self.manifest, "size": len(self.blobs[self.manifest]),
            "platform": {"architecture": "amd64", "os": "linux"},
            "annotations": {"org.opencontainers.image.ref.name": self.reference},
        }  # fmt: skip
        return as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]})

    def write(self, file: Path, epoch: int) -> None:
        """Writes the image as one archive of an OCI layout."""
        layout = Layer(epoch)
        layout.file("oci-layout", as_json({"imageLayoutVersion": "1.0.0"}))
        layout.file("index.json", self.index())
        for name, blob in self.blobs.items():
            layout.file(f"blobs/{name.replace(':', '/')}", blob)
        file.write_bytes(layout.tar())


def image(layers: list[tuple[str, Layer]], config: dict[str, Any], annotations: dict[str, str], created: str, reference: str) -> Image:
    """An image for Linux on x86-64.

    Args:
        layers: each with its origin in words, the lowest first.
        config: user, environment, command and so on.
    """
    blobs: dict[str, bytes] = {}
    described, plain, history = [], [], []
    for origin, layer in layers:
        content = layer.tar()
        packed = gzip.compress(content, compresslevel=9, mtime=0)
        blobs[digest(packed)] = packed
        described.append({"mediaType": LAYER, "digest": digest(packed), "size": len(packed)})
        plain.append(digest(content))
        history.append({"created": created, "created_by": origin})
    configured = as_json({
        "created": created, "architecture": "amd64", "os": "linux", "config": config,
        "rootfs": {"type": "layers", "diff_ids": plain}, "history": history,
    })  # fmt: skip
    blobs[digest(configured)] = configured
    manifest = as_json({
        "schemaVersion": 2, "mediaType": MANIFEST, "annotations": annotations, "layers": described,
        "config": {"mediaType": CONFIG, "digest": digest(configured), "size": len(configured)},
    })  # fmt: skip
    blobs[digest(manifest)] = manifest
    return Image(blobs, digest(manifest), reference)


def opened(archive: Path) -> Image:
    """The image of an archive. A blob with another digest than its name is refused."""
    with tarfile.open(archive) as layout:
        names = {entry.name: entry for entry in layout if entry.isreg()}

        def content(name: str) -> bytes:
            stream = layout.extractfile(names[name])
            assert stream is not None
            return stream.read()

        blobs = {"sha256:" + name.removeprefix("blobs/sha256/"): content(name) for name in names if name.startswith("blobs/sha256/")}
        (described,) = json.loads(content("index.json"))["manifests"]
    for name, blob in blobs.items():
        if digest(blob) != name:
            raise ValueError(f"{archive.name}: the blob {name} is {digest(blob)}")
    return Image(blobs, described["digest"], described["annotations"]["org.opencontainers.image.ref.name"])


def unpack(found: Image, root: Path) -> dict[str, Any]:
    """Writes the layers of an image into a folder, and gives its configuration. Owners are kept where this process may set them."""
    manifest = json.loads(found.blobs[found.manifest])
    for described in manifest["layers"]:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(found.blobs[described["digest"]]))) as layer:
            layer.extractall(root, numeric_owner=True, filter="fully_trusted")
    config: dict[str, Any] = json.loads(found.blobs[manifest["config"]["digest"]])
    return config
