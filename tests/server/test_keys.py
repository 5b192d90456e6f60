"""Keys let their clients in, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from oneglance.errors import ParameterError
from oneglance.server.keys import Client, KeyRing, parse_keys, read_keys


def test_keys_come_from_a_file_and_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# staff\nann sk-1 isolated\n\nbob sk-2 priority=-3\n")
    ring = read_keys(file, "eve sk-3, dan sk-4 isolated priority=2", "VARIABLE")
    assert len(ring) == 4
    assert ring.find("sk-1") == Client("ann", True)
    assert ring.find("sk-2") == Client("bob", False, -3)
    assert ring.find("sk-4") == Client("dan", True, 2)
    assert ring.find("sk-5") is None
    assert ring.find("") is None


def test_only_isolated_clients_have_caches_of_their_own() -> None:
    assert Client("ann", is_isolated=True).tenant == "ann"
    assert Client("bob").tenant == Client("eve").tenant == ""


@pytest.mark.parametrize("text", ["ann", "a/b sk-1", "ann sk-1 secret", "ann sk-1 priority=high"])
def test_malformed_entries_are_refused_without_the_key(text: str) -> None:
    with pytest.raises(ParameterError, match=r"Entry 1 of VARIABLE") as caught:
        parse_keys(text, "VARIABLE")
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize("text", ["ann sk-1, ann sk-2", "ann sk-1, bob sk-1"])
def test_names_and_keys_are_distinct(text: str) -> None:
    with pytest.raises(ParameterError, match="one name"):
        KeyRing(parse_keys(text, "VARIABLE"))


def test_a_file_without_keys_lets_nobody_in_unnoticed(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# none yet\n")
    with pytest.raises(ParameterError, match="has no keys"):
        read_keys(file, None, "VARIABLE")
    with pytest.raises(ParameterError, match="cannot be read"):
        read_keys(tmp_path / "absent", None, "VARIABLE")
