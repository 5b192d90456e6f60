"""Short snippets to explain, repair, annotate, shorten or translate.

In a snippet `$f` is the function's name, `$x` and `$y` are variables, `$k` a number and `$w` a
word; `$` fields keep the braces of Python code out of the way.
"""

from __future__ import annotations

from random import Random
from string import Template

from recipes.code_tasks import WORDS

LOOPS = (
    "def $f($x):\n    result = []\n    for $y in $x:\n        if $y > $k:\n"
    "            result.append($y * $k)\n    return result",
    "def $f($x):\n    $w = {}\n    for $y in $x:\n        $w[$y] = len($y) + $k\n    return $w",
    "def $f($x):\n    $w = []\n    for i in range(len($x)):\n        if i % $k == 0:\n"
    "            $w.append($x[i])\n    return $w",
    "def $f($x, $y):\n    pairs = []\n    for a in $x:\n        for b in $y:\n"
    "            if a + b == $k:\n                pairs.append((a, b))\n    return pairs",
    "def $f($x):\n    total = 0\n    for $y in $x:\n        if $y % $k != 0:\n"
    "            total += $y ** 2\n    return total",
    "def $f($x):\n    seen = set()\n    for $y in $x:\n        if len($y) >= $k:\n"
    "            seen.add($y.lower())\n    return seen",
    "def $f($x):\n    names = []\n    for $y in $x:\n        if $y['$w'] is not None:\n"
    "            names.append($y['$w'].strip())\n    return names[:$k]",
    "def $f($x):\n    flat = []\n    for row in $x:\n        for $y in row:\n"
    "            flat.append($y - $k)\n    return flat",
)
"""Loops that a comprehension or a built-in can replace; all of them are correct."""

PLAIN = (
    "def $f(n):\n    if n < $k:\n        return n\n    return $f(n // $k) + n % $k",
    "def $f($x, $y=$k):\n    return [$x[i:i + $y] for i in range(0, len($x), $y)]",
    "def $f($x):\n    $y = sorted($x, key=lambda item: (-item[1], item[0]))\n"
    "    return dict($y[:$k])",
    "def $f($x):\n    try:\n        $y = int($x)\n    except ValueError:\n        return $k\n"
    "    return max($y, $k)",
    "def $f(path):\n    with open(path) as $y:\n        lines = [l.strip() for l in $y]\n"
    "    return [l for l in lines if l.startswith('$w')][:$k]",
    "def $f($x):\n    left, right = 0, len($x) - 1\n    while left < right:\n"
    "        $y = $x[left] + $x[right]\n        if $y == $k:\n            return left, right\n"
    "        if $y < $k:\n            left += 1\n        else:\n            right -= 1\n"
    "    return None",
    "def $f($x):\n    $y = [1] * ($k + 1)\n    for value in $x:\n        if 0 <= value <= $k:\n"
    "            $y[value] += 1\n    return $y",
    "def $f($x, $y):\n    if $x is None or $y is None:\n        return False\n    else:\n"
    "        if $x == $y:\n            return True\n        else:\n"
    "            if abs($x - $y) < $k:\n                return True\n            else:\n"
    "                return False",
    "def $f($x):\n    from collections import deque\n    queue, $y = deque([($x, 0)]), []\n"
    "    while queue:\n        node, depth = queue.popleft()\n        if depth < $k:\n"
    "            $y.append(node.value)\n            queue.extend((c, depth + 1) for c in node.$w)\n"
    "    return $y",
    "class $c:\n    def __init__(self, $x):\n        self.$x = $x\n        self.$w = []\n\n"
    "    def add(self, $y):\n        if len(self.$w) < $k:\n            self.$w.append($y)\n"
    "        return len(self.$w)",
)
"""Other correct code."""

BUGS = (
    "def $f($x):\n    total = 0\n    for i in range(1, len($x)):\n        total += $x[i]\n"
    "    return total / len($x) + $k",
    "def $f($y, $x=[]):\n    $x.append($y * $k)\n    return $x",
    "def $f($x):\n    for $y in $x:\n        if $y < $k:\n            $x.remove($y)\n    return $x",
    "def $f($x):\n    largest = 0\n    for $y in $x:\n        if $y > largest:\n"
    "            largest = $y\n    return largest * $k",
    "def $f(n):\n    if n == 0:\n        return $k\n    return n * $f(n)",
    "def $f($x, $y):\n    low, high = 0, len($x)\n    while low < high:\n"
    "        middle = (low + high) // 2\n        if $x[middle] < $y:\n            low = middle\n"
    "        else:\n            high = middle\n    return low + $k",
    "def $f($x):\n    counts = {}\n    for $y in $x:\n        counts[$y] += $k\n    return counts",
    "def $f($x):\n    $y = '$w'\n    for part in $x:\n        $y + part\n    return $y * $k",
    "def $f($x):\n    result = $x\n    result.sort()\n    if result[0] = $k:\n"
    "        return result\n    return $x",
    "def $f($x):\n    if $x is '$w':\n        return $k\n    return len($x)",
    "def $f($x):\n    return [lambda $y: $y + i + $k for i in range($x)]",
    "def $f($x):\n    $y = [[0] * $k] * $x\n    $y[0][0] = 1\n    return $y",
)
"""Code with one mistake each: bounds, shared defaults, removal in a loop and so on."""

REPAIRS = (
    "Find the bug in this function and fix it.",
    "This code does not do what it should. What is wrong? Give a corrected version.",
    "Why does this function misbehave? Explain briefly and correct it.",
    "Review this code, name the mistake and return the repaired function.",
)
SHORTENINGS = (
    "Rewrite this function with a comprehension.",
    "Convert the loop to a comprehension or a built-in function.",
    "Make this function shorter and more idiomatic.",
    "Turn this into a generator-based version that uses less memory.",
)
CHANGES = (
    "Explain what this code does.",
    "Explain this code line by line.",
    "Add type hints and a docstring to this code.",
    "Add type hints.",
    "Write a Google-style docstring for this code and return the whole code.",
    "Refactor this code to be more readable.",
    "Give the variables better names and return the code.",
    "Translate this code to JavaScript.",
    "Translate this code to TypeScript.",
    "Translate this code to C++.",
    "Translate this code to Java.",
    "Translate this code to Go.",
    "Translate this code to Rust.",
    "What is the time complexity of this code? Can it be improved?",
    "Add error handling for invalid arguments.",
    "Add logging to this code.",
)
FUNCTION_NAMES = (
    "process",
    "convert",
    "handle",
    "compute",
    "collect",
    "transform",
    "select",
    "build",
    "update",
    "check",
)
INPUTS = ("items", "values", "data", "entries", "numbers", "records", "elements", "rows")
VARIABLES = ("x", "value", "item", "element", "entry", "current", "v", "single")


def write_snippet_request(random: Random) -> str:
    """An instruction with a snippet, in either order."""
    kind = random.random()
    if kind < 0.3:
        code, instruction = random.choice(BUGS), random.choice(REPAIRS)
    elif kind < 0.5:
        code, instruction = random.choice(LOOPS), random.choice(SHORTENINGS)
    else:
        code, instruction = random.choice((*LOOPS, *PLAIN)), random.choice(CHANGES)
    block = f"```python\n{fill_snippet(code, random)}\n```"
    if random.random() < 0.2:
        return f"{block}\n\n{instruction}"
    return f"{instruction}\n\n{block}"


def correct_snippet(random: Random) -> str:
    """A filled snippet without a mistake, in a fence."""
    return f"```python\n{fill_snippet(random.choice((*LOOPS, *PLAIN)), random)}\n```"


def fill_snippet(code: str, random: Random) -> str:
    """The snippet with random names and numbers in place of its `$` fields."""
    word = random.choice(WORDS)
    return Template(code).substitute(
        f=f"{random.choice(FUNCTION_NAMES)}_{word}",
        c=word.capitalize() + random.choice(("Box", "List", "Store")),
        x=random.choice(INPUTS),
        y=random.choice(VARIABLES),
        k=random.randint(2, 9),
        w=random.choice(("name", "title", "label", "group", "kind", "tags")),
    )
