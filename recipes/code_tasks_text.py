"""Tasks on text: words, letters, formats, encodings and small parsers."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby, pairwise

from recipes.code_tasks import Task, task

TEXT_TASKS: tuple[Task, ...] = (
    task(
        "count_long_words/num_long_words/long_word_total(text/sentence: sentence) -> int",
        lambda s, k: sum(len(w) > k for w in s.split()),
        "Count the whitespace-separated words of `{0}` that have more than {k} characters.",
        "How many words are longer than {k} characters? Words are separated by spaces.",
        k=(3, 4, 5),
    ),
    task(
        "reverse_each_word/mirror_words/flip_words(text/s/line: sentence) -> str",
        lambda s: " ".join(w[::-1] for w in s.split(" ")),
        "Reverse the letters of every word while keeping the words in their places.",
        "Return `{0}` with each space-separated word spelled backwards. Word order is unchanged.",
    ),
    task(
        "initials/acronym_of/make_acronym(phrase/text: sentence) -> str",
        lambda s: "".join(w[0].upper() for w in s.split()),
        "Build an acronym from the first letter of every word, in upper case.",
        "Given a phrase, take the first character of each word, capitalise it and join them.",
    ),
    task(
        "run_lengths/rle_pairs/encode_runs(text/s: lower) -> list[tuple[str, int]]",
        lambda s: [(c, len(list(g))) for c, g in groupby(s)],
        "Compress the string with run-length encoding into (character, count) pairs.",
        "Return one pair for every run of equal characters: the character and the run's length.",
    ),
    task(
        "compress_text/rle_string/squeeze_runs(text/s/data: lower) -> str",
        lambda s: "".join(
            c if n == 1 else f"{c}{n}" for c, n in ((c, len(list(g))) for c, g in groupby(s))
        ),
        "Replace every run of equal letters by the letter and its length; omit lengths of 1.",
        "Run-length encode `{0}`. A run of a single letter is written without a number.",
    ),
    task(
        "snake_to_camel/to_camel_case/camelize(name/text: word) -> str",
        lambda s, p: (lambda parts: parts[0] + "".join(x.title() for x in parts[1:]))(
            f"{p}_{s}".split("_")
        ),
        "Convert `{p}_` followed by the given word from snake_case to camelCase.",
        "Prefix the word with `{p}_`, then turn the snake_case name into camelCase.",
        p=("get", "set_all", "is_new", "load_from"),
    ),
    task(
        "atbash/mirror_alphabet/reverse_alphabet(text/message: word) -> str",
        lambda s: "".join(chr(219 - ord(c)) for c in s),
        "Replace a by z, b by y and so on, mirroring the alphabet.",
        "Apply the Atbash cipher to a string of lower-case letters.",
    ),
    task(
        "first_repeated_char/find_repeat/first_duplicate_letter(text/s: lower) -> str | None",
        lambda s: next((c for i, c in enumerate(s) if c in s[:i]), None),
        "Find the first character that has already occurred earlier in the string, or None.",
        "Scan `{0}` from left to right and return the first letter seen twice. None if all differ.",
    ),
    task(
        "first_single_char/first_unrepeated/lonely_letter(text/s/word: lower) -> str | None",
        lambda s: next((c for c in s if s.count(c) == 1), None),
        "Return the first character that appears exactly once, or None when there is none.",
        "Given a string, find its earliest character with no duplicate elsewhere in the string.",
    ),
    task(
        "letter_counts/char_frequencies/tally_letters(text/s: lower) -> dict[str, int]",
        lambda s: dict(sorted(Counter(s).items())),
        "Build a dictionary from each character to its number of occurrences, keys in order.",
        "Tally the characters of `{0}`. The keys of the result are sorted alphabetically.",
    ),
    task(
        "are_anagrams/is_anagram_pair/anagram_check(first/a: lower, second/b: lower) -> bool",
        lambda a, b: sorted(a) == sorted(b),
        "Check whether one string can be rearranged into the other one.",
        "Two strings are anagrams when they use the same letters equally often. Test for that.",
    ),
    task(
        "group_anagrams/cluster_anagrams(words/items: words) -> list[list[str]]",
        lambda ws: list(
            {
                k: [w for w in ws if sorted(w) == list(k)] for k in (tuple(sorted(w)) for w in ws)
            }.values()
        ),
        "Group the words that are anagrams of each other, groups in order of first appearance.",
        "Collect words with the same letters into lists. Keep the order in which they come.",
    ),
    task(
        "pad_number/zero_fill/fixed_width(n/value: number) -> str",
        lambda n, w, c: str(n).rjust(w, c),
        "Format the number as text of at least {w} characters, padded on the left with '{c}'.",
        "Return the decimal digits of `{0}`, right-aligned in {w} columns and filled with '{c}'.",
        w=(4, 5, 6, 8),
        c=("0", "*", ".", "_"),
    ),
    task(
        "thousands/format_thousands/group_digits(n/amount: big) -> str",
        lambda n, c: f"{n:,}".replace(",", c),
        "Insert '{c}' between every group of three digits, counted from the right.",
        "Format an integer with '{c}' as the thousands separator.",
        c=(",", "_", " ", "."),
    ),
    task(
        "truncate_text/shorten/ellipsize(text/s: sentence) -> str",
        lambda s, k: s if len(s) <= k else s[: k - 3] + "...",
        "Shorten the text to at most {k} characters; a shortened text ends with '...'.",
        "If `{0}` is longer than {k} characters, cut it and end it with three dots so that the"
        " result has exactly {k} characters. Otherwise return it unchanged.",
        k=(8, 10, 12, 15, 20),
    ),
    task(
        "wrap_words/break_lines/fill_lines(text/paragraph: sentence) -> list[str]",
        lambda s, k: _wrap(s, k),
        "Break the text into lines of at most {k} characters without splitting any word.",
        "Greedily pack words into lines no longer than {k}. A longer word gets its own line.",
        k=(10, 12, 16, 20),
    ),
    task(
        "parse_settings/parse_pairs/read_options(text/line: settings) -> dict[str, int]",
        lambda s: {k: int(v) for k, v in (p.split("=") for p in s.split(";"))},
        "Parse a string like 'a=1;b=2' into a dictionary with integer values.",
        "Split `{0}` at semicolons; every part is key=value. Return the values as integers.",
    ),
    task(
        "format_settings/join_pairs/dump_options(values/options: scores) -> str",
        lambda d, c: c.join(f"{k}={v}" for k, v in sorted(d.items())),
        "Join the dictionary's items as key=value, sorted by key, with '{c}' between them.",
        "Serialise a dictionary: items in key order, each as key=value, separated by '{c}'.",
        c=(";", "&", ", ", "|"),
    ),
    task(
        "mask_digits/hide_number/redact(number/text: digits) -> str",
        lambda s, k, c: c * max(0, len(s) - k) + s[-k:],
        "Replace all but the last {k} characters with '{c}'.",
        "Mask a card number: only its last {k} digits stay visible, the rest become '{c}'.",
        k=(2, 3, 4),
        c=("*", "#", "x"),
    ),
    task(
        "common_start/shared_prefix/prefix_of_both(a/first: lower, b/second: lower) -> str",
        lambda a, b: a[
            : next(
                (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
                min(len(a), len(b)),
            )
        ],
        "Find the longest string that both arguments start with.",
        "Compare two strings from the left and return the part before they first differ.",
    ),
    task(
        "letter_distance/hamming/count_mismatches(a/left: binary, b/right: binary) -> int",
        lambda a, b: sum(x != y for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b)),
        "Count the positions at which the strings differ; surplus characters count as different.",
        "Return the Hamming distance, extended to unequal lengths by adding their difference.",
    ),
    task(
        "edit_distance/levenshtein/num_edits(source/a: word, target/b: word) -> int",
        lambda a, b: _edits(a, b),
        "Compute the least number of insertions, deletions and substitutions between two words.",
        "Return the Levenshtein distance of `{0}` and `{1}`, by dynamic programming.",
    ),
    task(
        "longest_run/max_streak/best_run(text/s: binary) -> int",
        lambda s, c: max((len(r) for r in re.findall(f"{c}+", s)), default=0),
        "Return the length of the longest unbroken run of '{c}' in the string.",
        "Given a string of zeros and ones, how long is the longest block of '{c}'? 0 if none.",
        c=("0", "1"),
    ),
    task(
        "chunk_text/split_every/cut_pieces(text/s: lower) -> list[str]",
        lambda s, k: [s[i : i + k] for i in range(0, len(s), k)],
        "Cut the string into pieces of {k} characters; the last one may be shorter.",
        "Split `{0}` into consecutive blocks of length {k}.",
        k=(2, 3, 4),
    ),
    task(
        "title_words/headline/capitalize_words(text/s: sentence) -> str",
        lambda s, k: " ".join(w.capitalize() if len(w) > k else w.lower() for w in s.split()),
        "Capitalise words longer than {k} letters and put all other words in lower case.",
        "Turn the text into a headline: words of at most {k} letters stay in lower case.",
        k=(2, 3, 4),
    ),
    task(
        "slugify/make_slug/url_slug(title/text: sentence) -> str",
        lambda s, c: c.join(re.findall(r"[a-z0-9]+", s.lower())),
        "Make a URL slug: lower case, and words joined by '{c}' without punctuation.",
        "Lower the text, keep only runs of letters and digits, and join them with '{c}'.",
        c=("-", "_", "."),
    ),
    task(
        "keep_kind/only_kind/extract_chars(text/s: mixed) -> str",
        lambda s, kind: "".join(c for c in s if (c.isdigit() if kind == "digits" else c.isalpha())),
        "Remove every character of the string except its {kind}.",
        "Return only the {kind} of `{0}`, in their original order.",
        kind=("digits", "letters"),
    ),
    task(
        "classify_chars/char_classes/count_classes(text/s: mixed) -> dict[str, int]",
        lambda s: {
            "letters": sum(c.isalpha() for c in s),
            "digits": sum(c.isdigit() for c in s),
            "other": sum(not c.isalnum() for c in s),
        },
        "Count letters, digits and other characters; return a dict with exactly those keys.",
        "Return a dictionary with the keys 'letters', 'digits' and 'other' and their counts.",
    ),
    task(
        "letter_sum/word_value/alphabet_score(word/text: word) -> int",
        lambda s: sum(ord(c) - 96 for c in s),
        "Add up the letters' positions in the alphabet, where a is 1 and z is 26.",
        "Score a lower-case word: each letter is worth its place in the alphabet.",
    ),
    task(
        "most_frequent_word/top_word/favourite_word(words/items: words) -> str",
        lambda ws: min(ws, key=lambda w: (-ws.count(w), w)),
        "Return the most frequent word; among equals, the alphabetically smallest one.",
        "Given a non-empty list of words, find which occurs most often. Ties go by alphabet.",
    ),
    task(
        "sort_by_last_letter/order_by_ending/ending_sort(words/names: words) -> list[str]",
        lambda ws: sorted(ws, key=lambda w: (w[-1], w)),
        "Sort the words by their last letter, and equal ones alphabetically.",
        "Order words by how they end: compare last letters first, then whole words.",
    ),
    task(
        "words_by_size/index_by_size/size_groups(words/items: words) -> dict[int, list[str]]",
        lambda ws: {n: [w for w in ws if len(w) == n] for n in sorted({len(w) for w in ws})},
        "Group the words by their number of letters in a dictionary with ascending keys.",
        "Return a mapping from a length to the words of this length, in their given order.",
    ),
    task(
        "word_positions/find_all/offsets_of(text/s: lower) -> list[int]",
        lambda s, c: [i for i, x in enumerate(s) if x == c],
        "List all indices at which the letter '{c}' stands.",
        "Return every position of '{c}' in `{0}`, counted from zero; empty if it never occurs.",
        c=("a", "b", "c"),
    ),
    task(
        "alternate_case/wave_case/zigzag_case(text/s: word) -> str",
        lambda s: "".join(c.upper() if i % 2 == 0 else c for i, c in enumerate(s)),
        "Write letters at even indices in upper case and all other letters in lower case.",
        "Alternate between upper and lower case, starting with an upper-case letter.",
    ),
    task(
        "merge_alternately/weave/interleave_text(a/first: word, b/second: word) -> str",
        lambda a, b: "".join(x + y for x, y in zip(a, b, strict=False)) + a[len(b) :] + b[len(a) :],
        "Interleave two strings letter by letter and append what remains of the longer one.",
        "Take one character of each string in turn; the longer one's rest goes to the end.",
    ),
    task(
        "count_pairs/adjacent_equal/double_letters(text/word: word) -> int",
        lambda s: sum(x == y for x, y in pairwise(s)),
        "Count the places where two neighbouring characters are equal.",
        "How many adjacent pairs in `{0}` consist of one letter twice? Pairs may overlap.",
    ),
    task(
        "drop_repeats/dedupe_neighbours/collapse(text/s: lower) -> str",
        lambda s: "".join(c for c, _ in groupby(s)),
        "Collapse each run of equal characters into a single one.",
        "Return `{0}` without those characters that equal their left neighbour.",
    ),
    task(
        "is_pangram_of/covers_letters/uses_all(text/s: lower) -> bool",
        lambda s, a: set(a) <= set(s),
        "Check whether every letter of '{a}' occurs at least once in the string.",
        "Return True if `{0}` contains all the letters {a}, in any order.",
        a=("abc", "abd", "ab", "ace"),
    ),
    task(
        "is_subsequence/hidden_in/appears_in_order(short/part: word, long/whole: sentence) -> bool",
        lambda a, b: (lambda it: all(c in it for c in a))(iter(b)),
        "Check whether the letters of `{0}` occur in `{1}` in the same order, gaps allowed.",
        "Can `{0}` be made from `{1}` by deleting characters? Return a boolean.",
    ),
    task(
        "sliding_pieces/ngrams/windows_of_text(text/s: word) -> list[str]",
        lambda s, k: [s[i : i + k] for i in range(len(s) - k + 1)],
        "List all substrings of length {k} from left to right.",
        "Return the character {k}-grams of `{0}`; a shorter string has none.",
        k=(2, 3),
    ),
    task(
        "to_hex_pairs/hex_bytes/bytes_as_hex(text/s: word) -> str",
        lambda s, c: c.join(f"{b:02x}" for b in s.encode()),
        "Encode the text as UTF-8 and write its bytes as two-digit hexadecimals joined by '{c}'.",
        "Return the bytes of `{0}` in lower-case hex, with '{c}' between two bytes.",
        c=(" ", ":", "-"),
    ),
    task(
        "align_columns/make_row/table_row(cells/words: words) -> str",
        lambda ws, w, c: c.join(x.ljust(w) for x in ws),
        "Format one table row: pad each cell on the right to {w} columns and join with '{c}'.",
        "Left-align every string in {w} columns, then join the columns with '{c}'.",
        w=(7, 8, 10),
        c=("|", " | ", ";"),
    ),
    task(
        "mean_word_length/mean_word_size/average_word(text/s: sentence) -> float",
        lambda s: round(sum(map(len, s.split())) / len(s.split()), 2),
        "Compute the mean length of the words, rounded to two decimals.",
        "Return the average number of characters per word. Punctuation counts as letters.",
    ),
    task(
        "remove_words/without_words/filter_words(text/s: sentence) -> str",
        lambda s, a: " ".join(w for w in s.split() if w.lower()[0] not in a),
        "Remove the words that begin with one of the letters '{a}', ignoring case.",
        "Return the text without words whose initial, in either case, is among '{a}'.",
        a=("ab", "crs", "mw", "st", "gl"),
    ),
    task(
        "swap_ends/exchange_ends/switch_first_last(text/s: word) -> str",
        lambda s: s[-1] + s[1:-1] + s[0],
        "Exchange the first and the last character of a string of at least two characters.",
        "Return `{0}` with its two outermost letters swapped.",
    ),
    task(
        "decode_runs/expand_runs/unpack_counts(pairs/data: digits) -> str",
        lambda s: "".join(b * int(a) for a, b in zip(s[::2], s[1::2], strict=False)),
        "Expand a string of count and digit pairs: '3142' means 111 followed by 2222.",
        "Read `{0}` two digits at a time: a count, then the digit to repeat; drop a last odd one.",
    ),
)


def _wrap(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def _edits(source: str, target: str) -> int:
    row = list(range(len(target) + 1))
    for i, a in enumerate(source, 1):
        above, row = row, [i]
        for j, b in enumerate(target, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]
