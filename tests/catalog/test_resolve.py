from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from oneglance.checkpoints.catalog import CATALOG, Catalog, default_catalog
from oneglance.checkpoints.sources.entry import HubFile, InstalledFile, WheelParts
from oneglance.environment import read_environment
from oneglance.errors import CheckpointError, DownloadError, ParameterError, UnsupportedError
from tests.catalog.helpers import NAME, content, make_catalog, make_entry, prepare


@pytest.fixture
def catalog(cache_dir: Path) -> Catalog:
    return make_catalog(cache_dir, make_entry(content(), []))


def install(folder: Path, data: bytes) -> InstalledFile:
    package = folder / "a_package_with_a_model"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "m.gguf").write_bytes(data)
    return InstalledFile(package.name, "m.gguf")


def test_local_paths(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file, folder = tmp_path / "m.gguf", tmp_path / "folder"
    file.write_bytes(b"x")
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert catalog.resolve(str(file)) == file
    assert catalog.resolve(file) == file
    assert catalog.resolve("~/m.gguf") == file
    assert catalog.resolve("m.gguf").samefile(file)
    assert catalog.resolve(str(folder)) == folder


@pytest.mark.parametrize("text", ["m.gguf", "./x", "/x/y", "~/x", "sub/m.gguf", "..", "a\\b"])
def test_missing_paths_are_not_looked_for_on_the_hub(
    catalog: Catalog, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError):
        catalog.resolve(text)
    with pytest.raises(CheckpointError):
        catalog.resolve(Path(text))


def test_folder_without_model(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        catalog.resolve(str(tmp_path))


@pytest.mark.parametrize("text", ["", "  ", "a\0b"])
def test_empty_names(catalog: Catalog, text: str) -> None:
    with pytest.raises(ParameterError, match="names no model"):
        catalog.resolve(text)


def test_unknown_name_suggests_similar_ones_and_lists_all(cache_dir: Path) -> None:
    catalog = Catalog(CATALOG, cache_dir)
    with pytest.raises(ParameterError) as caught:
        catalog.resolve("Qwen-coder-0.5b")
    message = str(caught.value)
    assert "'Qwen-coder-0.5b' (did you mean qwen2.5-coder-0.5b" in message
    assert all(entry.name in message for entry in CATALOG)
    with pytest.raises(ParameterError, match=r"Unknown model 'zzz'; give"):
        catalog.resolve("zzz")


def test_installed_package_is_used_where_it_lies_and_not_imported(
    cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = content()
    source = install(tmp_path / "site", data)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    catalog = make_catalog(cache_dir, make_entry(data, [source]))
    calls: list[str] = []
    path = catalog.resolve(NAME, lambda *call: calls.append(call[0]))
    assert path == tmp_path / "site" / source.package / "m.gguf"
    assert catalog.list_models()[0].state == "in package"
    assert set(calls) == {f"check {NAME} (bytes)"}
    calls.clear()
    catalog.resolve(NAME, lambda *call: calls.append(call[0]))
    assert calls == []
    assert catalog.clear(NAME) < 1000  # the record of the check
    assert path.exists()


def test_installed_file_of_another_release_is_not_used(
    index: Path, cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = content()
    source = install(tmp_path / "site", content(seed=1))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    wheels = prepare(index, cache_dir, data)
    catalog = make_catalog(cache_dir, make_entry(data, [source, wheels]))
    assert catalog.resolve(NAME).read_bytes() == data


def test_folder_named_like_a_model_does_not_hide_it(
    index: Path, cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = content()
    (tmp_path / NAME).mkdir()
    monkeypatch.chdir(tmp_path)
    catalog = make_catalog(cache_dir, make_entry(data, [prepare(index, cache_dir, data)]))
    assert catalog.resolve(NAME) == cache_dir / f"{NAME}.gguf"


def test_model_that_cannot_be_run_is_refused_before_any_work(index: Path, cache_dir: Path) -> None:
    data = content()
    entry = make_entry(data, [prepare(index, cache_dir, data)])
    entry = dataclasses.replace(entry, unsupported_reason="it is a picture")
    catalog = make_catalog(cache_dir, entry)
    assert catalog.pull(NAME).read_bytes() == data
    with pytest.raises(UnsupportedError, match=f"{NAME} cannot be run: it is a picture"):
        catalog.resolve(NAME)
    info = catalog.info(NAME)
    assert (info.shape, info.unsupported_reason) == (None, "it is a picture")


def test_verify(index: Path, cache_dir: Path) -> None:
    data = content()
    entry = make_entry(data, [prepare(index, cache_dir, data)])
    catalog = make_catalog(cache_dir, entry)
    with pytest.raises(CheckpointError, match="is not on this machine"):
        catalog.verify(NAME)
    path = catalog.pull(NAME)
    assert catalog.verify(NAME) == path
    status = path.stat()
    path.write_bytes(content(seed=1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert catalog.resolve(NAME) == path  # size and time are as recorded
    with pytest.raises(CheckpointError, match=entry.sha256):
        catalog.verify(NAME)
    with pytest.raises(DownloadError):
        catalog.resolve(NAME)  # the record is gone, so the damage is seen


def test_clear_counts_and_removes_finished_and_unfinished(index: Path, cache_dir: Path) -> None:
    data = content()
    entry = make_entry(data, [prepare(index, cache_dir, data)])
    catalog = make_catalog(cache_dir, entry)
    kept = cache_dir / "a file of the user.gguf"
    kept.write_bytes(b"x")
    partial = catalog.list_models()[0].bytes_on_disk
    assert catalog.clear(NAME) == partial > len(data)
    prepare(index, cache_dir, data)
    catalog.pull(NAME)
    assert len(data) < catalog.clear() < len(data) + 1000
    assert catalog.list_models()[0].state == "not pulled"
    assert [path for path in cache_dir.rglob("*") if path.suffix in (".gguf", ".json")] == [kept]
    assert catalog.clear() == 0


def test_clear_removes_links_and_not_what_they_point_to(cache_dir: Path, tmp_path: Path) -> None:
    catalog = make_catalog(cache_dir, make_entry(content(), []))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.gguf").write_bytes(b"precious")
    (cache_dir / "partial").mkdir(parents=True)
    (cache_dir / f"{NAME}.gguf").symlink_to(outside / "precious.gguf")
    (cache_dir / "partial" / NAME).symlink_to(outside)
    assert catalog.clear(NAME) == 0
    assert not (cache_dir / f"{NAME}.gguf").is_symlink()
    assert not (cache_dir / "partial" / NAME).is_symlink()
    assert (outside / "precious.gguf").read_bytes() == b"precious"


def test_clear_refuses_a_folder_that_leads_out(cache_dir: Path, tmp_path: Path) -> None:
    catalog = make_catalog(cache_dir, make_entry(content(), []))
    outside = tmp_path / "outside" / NAME
    outside.mkdir(parents=True)
    (outside / "precious").write_bytes(b"precious")
    cache_dir.mkdir(parents=True)
    (cache_dir / "partial").symlink_to(outside.parent)
    with pytest.raises(DownloadError, match="leads out of the cache folder"):
        catalog.clear(NAME)
    assert (outside / "precious").exists()


@pytest.mark.parametrize("name", ["../outside", "/etc", "", "zzz"])
def test_clear_takes_known_names_only(catalog: Catalog, name: str) -> None:
    with pytest.raises(ParameterError, match=f"no model {name!r} in the catalog"):
        catalog.clear(name)


def test_cache_folder_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_environment({}).models_dir.parts[-2:] == ("oneglance", "models")
    assert read_environment({"ONEGLANCE_CACHE": str(tmp_path)}).cache_dir == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_environment({"ONEGLANCE_CACHE": "~/x"}).cache_dir == tmp_path / "x"
    (tmp_path / "file").write_text("")
    for value in ("", "relative", str(tmp_path / "file")):
        with pytest.raises(ParameterError, match="ONEGLANCE_CACHE"):
            read_environment({"ONEGLANCE_CACHE": value})
    monkeypatch.setenv("ONEGLANCE_CACHE", "relative")
    with pytest.raises(ParameterError, match="absolute"):
        default_catalog()


def test_known_models(cache_dir: Path) -> None:
    names = ["smollm2-135m", "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "gemma3-270m"]
    assert [entry.name for entry in CATALOG] == names
    for entry in CATALOG:
        assert len(entry.sha256) == 64
        kinds = [type(source) for source in entry.sources]
        assert kinds[-2:] == [HubFile, WheelParts]
        (wheels,) = (s for s in entry.sources if isinstance(s, WheelParts))
        assert 0.8 < wheels.download_bytes / entry.num_bytes < 1
        assert len({part.project for part in wheels.parts}) == len(wheels.parts)
    with pytest.raises(UnsupportedError, match="gemma3"):
        Catalog(CATALOG, cache_dir).resolve("gemma3-270m")
    with pytest.raises(ParameterError, match=r"Gemma Terms of Use.*--accept-license"):
        Catalog(CATALOG, cache_dir).pull("gemma3-270m")
    assert not cache_dir.exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
def test_real_pair_has_the_pinned_hashes(name: str) -> None:
    catalog = default_catalog()
    path = catalog.pull(name)
    assert catalog.verify(name) == path
