"""Writes the tables of docs/server.md: `python -m tests.docs.server`."""

from __future__ import annotations

import ast
import inspect

from oneglance.server import settings
from oneglance.server.definitions import DEFINITIONS
from oneglance.server.settings import ServerSettings
from tests.docs.documents import ROOT, write_blocks

SERVER = ROOT / "docs" / "server.md"


def settings_table() -> str:
    """Every setting with its default and what its docstring says."""
    rows = ["| setting | default | |", "| --- | --- | --- |"]
    for name, text in _docstrings().items():
        default = ServerSettings.model_fields[name].default
        shown = ", ".join(default) if isinstance(default, tuple) else str(default)
        value = "" if default is None or shown == "" else f"`{shown}`"
        rows.append(f"| `{name}` | {value} | {text.rstrip('.')} |")
    return "\n".join(rows)


def metrics_table() -> str:
    """Every figure with its definition."""
    rows = ["| figure | kind | by | |", "| --- | --- | --- | --- |"]
    for each in DEFINITIONS.values():
        suffix = "_total" if each.kind == "counter" else ""
        labels = ", ".join(f"`{label}`" for label in each.labels)
        rows.append(f"| `{each.name}{suffix}` | {each.kind} | {labels} | {each.text.rstrip('.')} |")
    return "\n".join(rows)


def _docstrings() -> dict[str, str]:
    """The texts below the fields of the settings."""
    module = ast.parse(inspect.getsource(settings))
    (kind,) = [
        node
        for node in module.body
        if isinstance(node, ast.ClassDef) and node.name == ServerSettings.__name__
    ]
    found: dict[str, str] = {}
    for field, text in zip(kind.body, kind.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[field.target.id] = " ".join(str(text.value.value).split())
    assert set(found) == set(ServerSettings.model_fields), "a setting is not described"
    return found


if __name__ == "__main__":
    write_blocks(SERVER, {"settings": settings_table(), "metrics": metrics_table()})
