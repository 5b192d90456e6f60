"""A draft tree as lines of writing: each branch from where it leaves the others."""

from __future__ import annotations

from oneglance.show.trace import Pass


def branches(item: Pass) -> list[list[int]]:
    """The nodes of a pass in lines, the one with the accepted path first.

    A line goes on with the accepted child where there is one, else with the first child that is
    not drawn yet; the others begin lines of their own, in order of index. A chain is one line.
    """
    children: dict[int, list[int]] = {}
    for node, each in enumerate(item.nodes):
        children.setdefault(each.parent, []).append(node)
    taken: set[int] = set()
    lines: list[list[int]] = []
    for start in [*item.accepted[:1], *range(len(item.nodes))]:
        if start in taken:
            continue
        line: list[int] = []
        current: int | None = start
        while current is not None:
            line.append(current)
            taken.add(current)
            left = [child for child in children.get(current, []) if child not in taken]
            left.sort(key=lambda child: child not in item.accepted)  # stable: first child first
            current = left[0] if left else None
        lines.append(line)
    return lines
