"""Requests for more than a function: classes, scripts and tests, each with optional features."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

CLASSES: Sequence[tuple[str, Sequence[str]]] = (
    ("a stack that also returns its maximum in constant time", ("push", "pop", "peek", "max")),
    ("an LRU cache with a fixed capacity", ("get", "put", "clear", "__len__")),
    ("a matrix of floats", ("__add__", "__matmul__", "transpose", "determinant")),
    ("a bank account that refuses overdrafts", ("deposit", "withdraw", "transfer", "history")),
    ("an event bus", ("subscribe", "unsubscribe", "publish", "once")),
    ("a recursive-descent parser for arithmetic expressions", ("tokenize", "parse", "evaluate")),
    ("a binary search tree", ("insert", "contains", "delete", "in_order")),
    ("a trie of words", ("insert", "search", "starts_with", "delete")),
    ("a min-heap without heapq", ("push", "pop", "peek", "__len__")),
    ("a singly linked list", ("append", "remove", "reverse", "__iter__")),
    ("a circular buffer", ("append", "__getitem__", "__len__", "is_full")),
    ("a union-find structure", ("find", "union", "connected", "num_sets")),
    ("a 2D vector", ("__add__", "__mul__", "length", "normalized")),
    ("a polynomial with integer coefficients", ("__call__", "__add__", "__mul__", "degree")),
    ("a token-bucket rate limiter", ("allow", "refill", "reset")),
    ("a shopping cart", ("add", "remove", "total", "apply_discount")),
    ("a deck of playing cards", ("shuffle", "draw", "deal", "__len__")),
    ("an inventory of a small shop", ("add_item", "remove_item", "restock", "report")),
    ("a directed weighted graph", ("add_edge", "neighbours", "shortest_path", "has_cycle")),
    ("a finite state machine", ("add_transition", "trigger", "reset", "can_trigger")),
    ("a priority task queue", ("add", "pop", "cancel", "__len__")),
    ("a tic-tac-toe board", ("play", "winner", "is_full", "__str__")),
    ("an in-memory key-value store with expiry times", ("set", "get", "delete", "purge")),
    ("a text buffer with undo and redo", ("insert", "delete", "undo", "redo")),
    ("a money amount with a currency", ("__add__", "__sub__", "__eq__", "convert")),
    ("a date range", ("__contains__", "overlaps", "days", "split")),
    ("a library that lends books", ("add_book", "lend", "give_back", "overdue")),
    ("a temperature sensor log", ("record", "average", "latest", "above")),
    ("a sparse vector stored as a dictionary", ("__getitem__", "dot", "__add__", "norm")),
    ("an undirected graph for friendships", ("befriend", "friends_of", "mutual", "suggest")),
    ("a moving-average calculator", ("add", "value", "reset")),
    ("a fraction that stays in lowest terms", ("__add__", "__mul__", "__lt__", "__str__")),
)

SCRIPTS: Sequence[tuple[str, Sequence[str]]] = (
    ("counts lines, words and characters of files", ("an argparse interface", "a total line")),
    ("reads a CSV of orders and prints revenue per customer", ("sorting", "an --output option")),
    ("finds duplicate files below a folder by their hashes", ("pathlib", "a --min-size option")),
    (
        "parses a web server log with a regular expression",
        ("a count by status", "a --since option"),
    ),
    (
        "stores notes in SQLite and can add, list, edit and delete them",
        ("subcommands", "timestamps"),
    ),
    ("renames photos by their modification date", ("a dry run", "a check for collisions")),
    ("converts a JSON list of records to CSV", ("nested keys as dotted columns", "stdin support")),
    ("fetches several URLs concurrently with asyncio", ("a limit on concurrency", "retries")),
    ("watches a folder and prints new files", ("a polling interval option", "a clean exit on ^C")),
    ("makes random passwords", ("the secrets module", "options for length and alphabet")),
    ("backs up a folder into a dated zip file", ("an exclude option", "deletion of old backups")),
    ("compares two text files line by line", ("difflib", "an exit code like diff's")),
    ("merges several sorted files into one", ("heapq.merge", "an option for numeric order")),
    ("prints a calendar of a month with marked days", ("arguments for year and month", "colours")),
    ("checks a list of links in a Markdown file", ("a regular expression", "a summary at the end")),
    ("plays a number-guessing game in the terminal", ("a limit on attempts", "a high score file")),
    ("summarises the sizes of all subfolders", ("human-readable units", "a --depth option")),
    ("imports contacts from CSV into SQLite", ("parametrised queries", "a report of bad rows")),
)

PIECES: Sequence[tuple[str, Sequence[str]]] = (
    ("a decorator that retries a function {n} times", ("exponential backoff", "functools.wraps")),
    ("a decorator that caches results for {n} seconds", ("a maximum size", "keyword arguments")),
    ("a decorator that logs calls slower than {n} milliseconds", ("logging", "functools.wraps")),
    ("a decorator that allows at most {n} calls per second", ("threads", "monotonic time")),
    ("a context manager that measures time and warns above {n} ms", ("a label", "nesting")),
    ("a context manager that changes the working directory", ("pathlib", "exceptions inside")),
    ("a context manager that redirects stdout to a string", ("contextlib", "a size limit of {n}")),
    ("a generator that yields batches of {n} items from any iterable", ("lazy input", "tests")),
    ("a generator that reads a large file in blocks of {n} kB", ("binary mode", "a checksum")),
    ("a generator of the first {n} primes", ("an incremental sieve", "a usage example")),
    ("an iterator over sliding windows of size {n}", ("collections.deque", "any iterable")),
    ("a dataclass for a blog post with at most {n} tags", ("validation", "to_dict and from_dict")),
    ("a dataclass for an order with up to {n} lines", ("a total property", "ordering by date")),
    ("an async function that fetches pages with at most {n} requests at once", ("timeouts",)),
    ("an async producer-consumer queue with {n} workers", ("a clean shutdown", "error handling")),
    ("a thread pool example with {n} workers that sums file sizes", ("futures", "errors")),
    ("an enum of log levels and a filter that keeps the last {n} messages", ("a deque", "tests")),
    ("a function that reads the last {n} lines of a file", ("large files", "encodings")),
    (
        "a small template engine that replaces {{{{name}}}} up to {n} levels deep",
        ("errors", "tests"),
    ),
    ("a descriptor that validates integers between 0 and {n}", ("__set_name__", "a message")),
)

TEST_WORDINGS: Sequence[str] = (
    "Write pytest tests for this function.\n\n{code}",
    "Write {n} unit tests with unittest for the following code:\n\n{code}",
    "{code}\n\nWrite parametrised pytest tests for the function above, with edge cases.",
    "Add a test module for this function. Cover at least {n} cases.\n\n{code}",
)

CLASS_WORDINGS: Sequence[str] = (
    "Write a Python class for {thing} with the methods {methods}.",
    "Implement {thing} as a Python class. It should have {methods}.",
    "Create a class in Python: {thing}. Methods: {methods}.",
    "I need {thing} in Python. Please provide {methods}.",
)

CLASS_EXTRAS: Sequence[str] = (
    "",
    " Use type hints.",
    " Add docstrings.",
    " Include a short usage example.",
    " Raise suitable exceptions for invalid arguments.",
    " Use only the standard library.",
    " Add a few unit tests.",
    " Return only the code.",
)

SCRIPT_WORDINGS: Sequence[str] = (
    "Write a Python script that {thing}. Include {features}.",
    "Write a small command-line tool in Python which {thing}, with {features}.",
    "Create a Python program. It {thing}. I would like {features}.",
)

PIECE_WORDINGS: Sequence[str] = (
    "Write {thing} in Python. Consider {features}.",
    "Implement {thing} (Python 3), with attention to {features}.",
    "Show me Python code for {thing}. Keep {features} in mind.",
)


def write_project(random: Random) -> str:
    """A request for a class, a script or another piece of a program."""
    kind = random.random()
    if kind < 0.5:
        thing, methods = random.choice(CLASSES)
        named = _join(random, [f"`{method}`" for method in methods], 2)
        wording = random.choice(CLASS_WORDINGS).format(thing=thing, methods=named)
        return wording + random.choice(CLASS_EXTRAS)
    if kind < 0.75:
        thing, features = random.choice(SCRIPTS)
        named = _join(random, features, 1)
        wording = random.choice(SCRIPT_WORDINGS).format(thing=thing, features=named)
        return wording + random.choice(CLASS_EXTRAS)
    thing, features = random.choice(PIECES)
    number = random.choice((2, 3, 5, 8, 10, 20, 50, 100))
    named = _join(random, features, 1)
    wording = random.choice(PIECE_WORDINGS).format(thing=thing, features=named)
    return wording.format(n=number)


def write_test_request(code: str, random: Random) -> str:
    """A request to test the function in `code`, a fenced block."""
    return random.choice(TEST_WORDINGS).format(code=code, n=random.randint(3, 8))


def _join(random: Random, parts: Sequence[str], least: int) -> str:
    """Some of the parts, at least `least`, in their order: 'a, b and c'."""
    chosen = set(random.sample(range(len(parts)), random.randint(least, len(parts))))
    names = [part for i, part in enumerate(parts) if i in chosen]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
