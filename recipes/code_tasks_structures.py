"""Tasks on dictionaries, matrices, graphs, sets, intervals, stacks and queues."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from recipes.code_tasks import Task, task

STRUCTURE_TASKS: tuple[Task, ...] = (
    task(
        "invert_scores/swap_keys/invert_mapping(scores/mapping: scores) -> dict[int, list[str]]",
        lambda d: {v: sorted(k for k in d if d[k] == v) for v in sorted(set(d.values()))},
        "Invert the mapping: from each value, ascending, to the sorted list of its keys.",
        "Return who reached each score: scores in ascending order, names sorted.",
    ),
    task(
        "top_scorers/best_names/leaders(scores/points: scores) -> list[str]",
        lambda d, k: sorted(d, key=lambda n: (-d[n], n))[:k],
        "Return the names of the {k} highest scores, best first, ties by name.",
        "List at most {k} keys, ordered by falling value and then alphabetically.",
        k=(1, 2, 3),
    ),
    task(
        "filter_scores/passing/at_or_above(scores/marks: scores) -> dict[str, int]",
        lambda d, k: {n: v for n, v in d.items() if v >= k},
        "Keep only the entries whose value is at least {k}.",
        "Return a new dictionary without the scores below {k}.",
        k=(5, 8, 10, 12),
    ),
    task(
        "merge_scores/add_dicts/combine_counts(a/left: scores, b/right: scores) -> dict[str, int]",
        lambda a, b: {k: a.get(k, 0) + b.get(k, 0) for k in sorted(a | b)},
        "Add two dictionaries: values of shared keys are summed; keys come sorted.",
        "Merge both mappings into one with sorted keys. A missing key counts as 0.",
    ),
    task(
        "diff_dicts/changed_keys/compare_scores(old: scores, new/last: scores) -> list[str]",
        lambda a, b: sorted(k for k in a | b if a.get(k) != b.get(k)),
        "List in order the keys that were added, removed or given another value.",
        "Return the sorted names for which the two dictionaries do not agree.",
    ),
    task(
        "group_by_city/names_by_city/residents(people/records: people) -> dict[str, list[str]]",
        lambda ps: {
            c: [p["name"] for p in ps if p["city"] == c] for c in sorted({p["city"] for p in ps})
        },
        "Group the people's names by city, with the cities in alphabetical order.",
        "Every record has name, age and city. Map each city to the names that live there.",
    ),
    task(
        "mean_age/average_age/typical_age(people/records: people) -> float",
        lambda ps: round(sum(p["age"] for p in ps) / len(ps), 1),
        "Compute the average of the records' 'age' fields, rounded to one decimal.",
        "Return the mean age of a non-empty list of people, with one decimal place.",
    ),
    task(
        "adults_only/older_than/of_age(people/records: people) -> list[str]",
        lambda ps, k: [p["name"] for p in ps if p["age"] >= k],
        "List the names of those who are at least {k} years old.",
        "Select records with an age of {k} or more and return their names in order.",
        k=(18, 21, 30, 40),
    ),
    task(
        "pluck_field/project/column_of(records/rows: people) -> list[Any]",
        lambda ps, f: [p[f] for p in ps],
        "Extract the field '{f}' of every record.",
        "Return the values under the key '{f}', one for each dictionary.",
        f=("age", "city", "name"),
    ),
    task(
        "sort_people/order_records/by_field(people/records: people) -> list[str]",
        lambda ps, f: [p["name"] for p in sorted(ps, key=lambda p: (p[f], p["name"]))],
        "Sort the people by '{f}', then by name, and return the names.",
        "Return the names in the order of the field '{f}'; equal ones alphabetically.",
        f=("age", "city"),
    ),
    task(
        "flatten/flatten_deep/unnest(items/nested: nested) -> list[int]",
        lambda xs: _flatten(xs),
        "Flatten arbitrarily nested lists of numbers into one list.",
        "Return all numbers of `{0}` from left to right, whatever their depth.",
    ),
    task(
        "max_depth/nesting_level/list_depth(items/nested: nested) -> int",
        lambda xs: _depth(xs),
        "Compute how deeply the lists are nested; a flat list has depth 1.",
        "Return the greatest number of list levels around any element.",
    ),
    task(
        "weighted_nested_sum/depth_sum/deep_sum(items/nested: nested) -> int",
        lambda xs: _depth_sum(xs, 1),
        "Add up all numbers, each multiplied by the depth of the list that holds it.",
        "Numbers in the outer list count once, those one level deeper twice, and so on.",
    ),
    task(
        "transpose/flip_matrix/swap_axes(matrix/rows: matrix) -> list[list[int]]",
        lambda m: [list(r) for r in zip(*m, strict=True)],
        "Transpose the matrix: its rows become columns.",
        "Return a new list of lists in which element [i][j] is the old element [j][i].",
    ),
    task(
        "rotate_matrix/turn_right/quarter_turn(matrix/grid: matrix) -> list[list[int]]",
        lambda m: [list(r) for r in zip(*m[::-1], strict=True)],
        "Rotate the matrix by 90 degrees clockwise.",
        "Turn a grid a quarter to the right; the first column becomes the first row, reversed.",
    ),
    task(
        "diagonal_sum/trace_both/cross_sum(matrix/square: square) -> int",
        lambda m: sum(
            x for i, r in enumerate(m) for j, x in enumerate(r) if i == j or i + j == len(m) - 1
        ),
        "Add up the elements on both diagonals of a square matrix, the centre only once.",
        "Return the sum over the main and the anti-diagonal without counting a cell twice.",
    ),
    task(
        "is_symmetric/equals_transpose/symmetric_matrix(matrix/square: square) -> bool",
        lambda m: m == [list(r) for r in zip(*m, strict=True)],
        "Check whether a square matrix equals its transpose.",
        "Return True if element [i][j] equals element [j][i] everywhere.",
    ),
    task(
        "matrix_product/matmul/square_matrix(matrix/a: square) -> list[list[int]]",
        lambda m: [
            [sum(x * y for x, y in zip(r, c, strict=True)) for c in zip(*m, strict=True)] for r in m
        ],
        "Multiply a square matrix by itself.",
        "Return the matrix product of `{0}` and `{0}` without any library.",
    ),
    task(
        "spiral_order/walk_spiral/unroll(matrix/grid: matrix) -> list[int]",
        lambda m: _spiral(m),
        "List the elements in clockwise spiral order, starting at the top left.",
        "Walk around the border inwards: right, down, left, up, and so on.",
    ),
    task(
        "neighbour_count/live_neighbours/count_adjacent(grid/cells: grid) -> list[list[int]]",
        lambda g: [[_neighbours(g, i, j) for j in range(len(g[0]))] for i in range(len(g))],
        "Count for each cell the ones among its up to eight neighbours.",
        "Return a grid of the same shape with the number of adjacent live cells.",
    ),
    task(
        "life_step/next_generation/evolve(grid/board: grid) -> list[list[int]]",
        lambda g: [
            [
                int(_neighbours(g, i, j) == 3 or (g[i][j] == 1 and _neighbours(g, i, j) == 2))
                for j in range(len(g[0]))
            ]
            for i in range(len(g))
        ],
        "Compute the next generation of Conway's Game of Life on a bounded grid.",
        "A live cell stays with 2 or 3 neighbours, a dead one is born with 3. Edges are dead.",
    ),
    task(
        "count_islands/num_regions/connected_areas(grid/map_rows: grid) -> int",
        lambda g: _islands(g),
        "Count the groups of ones that are connected horizontally or vertically.",
        "Each 1 is land and each 0 is water; how many islands are there?",
    ),
    task(
        "grid_paths/count_routes/open_paths(grid/maze: grid) -> int",
        lambda g: _paths(g),
        "Count the ways from the top left to the bottom right, moving right or down on zeros.",
        "Cells with 1 are blocked. How many paths of right and down moves cross the grid?",
    ),
    task(
        "min_path_sum/cheapest_path/lowest_cost(matrix/costs: matrix) -> int",
        lambda m: _cheapest(m),
        "Find the least sum on a way from top left to bottom right, going right or down.",
        "Each cell has a cost. Return the cheapest total, both corner cells included.",
    ),
    task(
        "reachable/all_reachable/visit_from(graph/links: graph) -> list[str]",
        lambda g: _reachable(g, "A"),
        "List, sorted, all nodes that can be reached from 'A', itself included.",
        "Follow the directed edges of an adjacency dictionary from 'A' and sort what you find.",
    ),
    task(
        "in_degrees/incoming_counts/count_parents(graph/edges: graph) -> dict[str, int]",
        lambda g: {n: sum(n in targets for targets in g.values()) for n in g},
        "Count the incoming edges of every node of the directed graph.",
        "Return for each key how many adjacency lists contain it.",
    ),
    task(
        "reverse_graph/flip_edges/invert_links(graph/links: graph) -> dict[str, list[str]]",
        lambda g: {n: [m for m in g if n in g[m]] for n in g},
        "Reverse the direction of every edge.",
        "Map each node to the nodes that point to it, in the order of the keys.",
    ),
    task(
        "topological_order/build_order/schedule_jobs(graph/dependents: graph) -> list[str]",
        lambda g: sorted(g),
        "Order the nodes so that edges point forwards; take the alphabetically first one free.",
        "Topologically sort an acyclic graph. Among available nodes, pick the smallest name.",
    ),
    task(
        "longest_path/critical_length/longest_chain_in(graph/dag: graph) -> int",
        lambda g: max(_longest(g, n) for n in g),
        "Return the number of edges on the longest path of an acyclic graph.",
        "The graph has no cycles. How many edges does its longest path have?",
    ),
    task(
        "hops_between/shortest_hops/bfs_distance(graph/links: graph) -> int",
        lambda g: _hops(g, "A", max(g)),
        "Count the edges on a shortest path from 'A' to the last key, or -1 if there is none.",
        "Breadth-first search from 'A' to the alphabetically last node; -1 if unreachable.",
    ),
    task(
        "merge_intervals/union_ranges/join_spans(intervals/spans: intervals) ->"
        " list[tuple[int, int]]",
        lambda xs: _merge(xs),
        "Merge intervals that overlap or touch and return them in ascending order.",
        "Each tuple is (start, end). Combine those that share at least a point.",
    ),
    task(
        "covered_length/total_coverage/union_length(intervals/spans: intervals) -> int",
        lambda xs: sum(b - a for a, b in _merge(xs)),
        "Compute the total length that the intervals cover together.",
        "Overlapping parts count once. Return the length of the union of all (start, end).",
    ),
    task(
        "free_gaps/find_gaps/idle_times(intervals/meetings: intervals) -> list[tuple[int, int]]",
        lambda xs: [(a[1], b[0]) for a, b in pairwise(_merge(xs))],
        "List the gaps between the first start and the last end that no interval covers.",
        "Given meetings as (start, end), return the free times between them.",
    ),
    task(
        "max_overlap/rooms_needed/peak_load(intervals/bookings: intervals) -> int",
        lambda xs: max(sum(a <= t < b for a, b in xs) for t, _ in xs),
        "Find how many intervals overlap at most; the end point is excluded.",
        "How many rooms do these bookings need? One may start when another ends.",
    ),
    task(
        "select_activities/max_meetings/non_overlapping(intervals/activities: intervals) -> int",
        lambda xs: _activities(xs),
        "Return how many non-overlapping intervals can be chosen at most.",
        "Choose greedily as many activities as fit one after another and return their number.",
    ),
    task(
        "spans_overlap/do_overlap/share_time(a/first: interval, b/second: interval) -> bool",
        lambda a, b: a[0] < b[1] and b[0] < a[1],
        "Check whether two half-open ranges (start, end) have a common part.",
        "Return False if one range ends before, or exactly when, the other starts.",
    ),
    task(
        "evaluate_rpn/postfix_value/run_stack(expression/tokens: expression) -> int",
        lambda s: _postfix(s),
        "Evaluate an expression in reverse Polish notation with +, - and *.",
        "Read space-separated tokens; numbers are pushed, operators use the two on top.",
    ),
    task(
        "insertions_to_balance/unmatched/repairs_needed(text/parens: parens) -> int",
        lambda s: _unmatched(s),
        "Count the parentheses without a partner in a string of '(' and ')'.",
        "How many characters must at least be added so that the parentheses match?",
    ),
    task(
        "josephus/last_standing/survivor(n/people: n) -> int",
        lambda n, k: _josephus(n, k),
        "Find who is left when people 1 to `{0}` stand in a circle and each {k}th one leaves.",
        "Solve the Josephus problem with step {k} using a queue. Positions start at 1.",
        k=(2, 3, 4, 5),
    ),
    task(
        "undo_stack/apply_commands/type_with_undo(commands/keys: letters) -> str",
        lambda xs, k: _typed(xs, k),
        "Type the letters one by one, where '{k}' deletes the letter before it, if any.",
        "Process keys with a stack: '{k}' removes the last typed letter. Return the text.",
        k=("a", "b", "d"),
    ),
)


def _flatten(value: Any) -> list[int]:
    return [x for part in value for x in (_flatten(part) if isinstance(part, list) else [part])]


def _depth(value: Any) -> int:
    return 1 + max((_depth(x) for x in value), default=0) if isinstance(value, list) else 0


def _depth_sum(value: Any, depth: int) -> int:
    return sum(_depth_sum(x, depth + 1) if isinstance(x, list) else depth * x for x in value)


def _spiral(rows: list[list[int]]) -> list[int]:
    if not rows:
        return []
    turned = [list(row) for row in zip(*rows[1:], strict=True)][::-1]
    return rows[0] + _spiral(turned)


def _neighbours(grid: list[list[int]], i: int, j: int) -> int:
    rows = grid[max(0, i - 1) : i + 2]
    return sum(sum(row[max(0, j - 1) : j + 2]) for row in rows) - grid[i][j]


def _islands(grid: list[list[int]]) -> int:
    land = {(i, j) for i, row in enumerate(grid) for j, cell in enumerate(row) if cell}
    count = 0
    while land:
        count += 1
        stack = [land.pop()]
        while stack:
            i, j = stack.pop()
            near = land & {(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)}
            land -= near
            stack.extend(near)
    return count


def _paths(grid: list[list[int]]) -> int:
    ways = [1] + [0] * (len(grid[0]) - 1)
    for row in grid:
        for j, cell in enumerate(row):
            ways[j] = 0 if cell else ways[j] + (ways[j - 1] if j else 0)
    return ways[-1]


def _cheapest(rows: list[list[int]]) -> int:
    best: dict[tuple[int, int], int] = {}
    for i, row in enumerate(rows):
        for j, cost in enumerate(row):
            before = [best[p] for p in ((i - 1, j), (i, j - 1)) if p in best]
            best[i, j] = cost + min(before, default=0)
    return best[len(rows) - 1, len(rows[0]) - 1]


def _reachable(graph: dict[str, list[str]], start: str) -> list[str]:
    return sorted({start}.union(*(_reachable(graph, node) for node in graph[start])))


def _longest(graph: dict[str, list[str]], node: str) -> int:
    return max((1 + _longest(graph, other) for other in graph[node]), default=0)


def _hops(graph: dict[str, list[str]], start: str, goal: str) -> int:
    frontier, hops = {start}, 0
    while frontier and goal not in frontier:
        frontier, hops = {other for node in frontier for other in graph[node]}, hops + 1
    return hops if frontier else -1


def _merge(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _activities(intervals: list[tuple[int, int]]) -> int:
    count, free_at = 0, -1
    for start, end in sorted(intervals, key=lambda interval: interval[1]):
        if start >= free_at:
            count, free_at = count + 1, end
    return count


def _postfix(expression: str) -> int:
    stack: list[int] = []
    for token in expression.split():
        if token in "+-*":
            b, a = stack.pop(), stack.pop()
            stack.append(a + b if token == "+" else a - b if token == "-" else a * b)
        else:
            stack.append(int(token))
    return stack[0]


def _unmatched(text: str) -> int:
    opened = missing = 0
    for character in text:
        if character == "(":
            opened += 1
        elif opened:
            opened -= 1
        else:
            missing += 1
    return opened + missing


def _josephus(count: int, step: int) -> int:
    people = list(range(1, count + 1))
    while len(people) > 1:
        leave = (step - 1) % len(people)
        people = people[leave + 1 :] + people[:leave]
    return people[0]


def _typed(keys: list[str], delete: str) -> str:
    text = ""
    for key in keys:
        text = text[:-1] if key == delete else text + key
    return text
