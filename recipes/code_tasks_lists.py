"""Tasks on lists: selecting, sorting, counting, windows and two-pointer walks."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, combinations, groupby, pairwise

from recipes.code_tasks import Task, task

LIST_TASKS: tuple[Task, ...] = (
    task(
        "sum_above/total_over/add_large(numbers/values/xs: ints) -> int",
        lambda xs, k: sum(x for x in xs if x > k),
        "Add up the numbers that are greater than {k}.",
        "Return the sum of those elements of `{0}` that exceed {k}; 0 if there are none.",
        k=(0, 3, 5, 8, 10),
    ),
    task(
        "count_between/num_in_range/in_bounds(numbers/values: ints) -> int",
        lambda xs, a, b: sum(a <= x <= b for x in xs),
        "Count the numbers from {a} to {b}, both included.",
        "How many elements x of the list satisfy {a} <= x <= {b}?",
        a=(-2, 0, 1, 3),
        b=(6, 8, 12),
    ),
    task(
        "every_kth/take_every/thin_out(items/values: ints) -> list[int]",
        lambda xs, k: xs[k - 1 :: k],
        "Return every {k}th element, starting with the {k}th one.",
        "Keep the elements whose one-based position is divisible by {k}.",
        k=(4, 5, 6),
    ),
    task(
        "chunk_list/batches/in_groups(items/values/data: ints) -> list[list[int]]",
        lambda xs, k: [xs[i : i + k] for i in range(0, len(xs), k)],
        "Split the list into consecutive groups of {k}; the last may be smaller.",
        "Given a list, return it as a list of batches with at most {k} elements each.",
        k=(2, 3, 4),
    ),
    task(
        "window_sums/sliding_sums/moving_totals(numbers/values: ints) -> list[int]",
        lambda xs, k: [sum(xs[i : i + k]) for i in range(len(xs) - k + 1)],
        "Return the sum of every window of {k} neighbouring numbers.",
        "Slide a window of width {k} over `{0}` and collect the sums. Too short a list gives [].",
        k=(2, 3),
    ),
    task(
        "moving_mean/smooth/rolling_average(values/series: floats) -> list[float]",
        lambda xs, k: [round(sum(xs[i : i + k]) / k, 2) for i in range(len(xs) - k + 1)],
        "Compute the moving average over {k} values, every mean rounded to two decimals.",
        "Smooth a series: average each {k} consecutive values and round to 2 places.",
        k=(2, 3),
    ),
    task(
        "prefix_totals/running_sum/cumulative(numbers/values: ints) -> list[int]",
        lambda xs: list(accumulate(xs)),
        "Return the list of running totals.",
        "The i-th element of the result is the sum of the first i + 1 numbers of `{0}`.",
    ),
    task(
        "differences/deltas/step_changes(numbers/series: ints) -> list[int]",
        lambda xs: [b - a for a, b in pairwise(xs)],
        "Return the difference between every number and the one before it.",
        "Given n numbers, return the n - 1 changes from each to the next.",
    ),
    task(
        "largest_jump/max_gap/biggest_step(numbers/values: ints) -> int",
        lambda xs: max(abs(b - a) for a, b in pairwise(xs)),
        "Find the largest absolute difference between neighbours in the list.",
        "Return the size of the biggest step, up or down, between consecutive numbers.",
    ),
    task(
        "second_largest/runner_up/second_best(numbers/scores: ints) -> int | None",
        lambda xs: (lambda u: u[-2] if len(u) > 1 else None)(sorted(set(xs))),
        "Return the second largest distinct number, or None if there is no such number.",
        "Ignoring repeats, which number is beaten only by the maximum? None if all are equal.",
    ),
    task(
        "index_of_peak/argmax/position_of_max(numbers/values: ints) -> int",
        lambda xs: xs.index(max(xs)),
        "Find the index of the largest number; the first one if it occurs repeatedly.",
        "Return the zero-based position at which the maximum of the list first appears.",
    ),
    task(
        "local_peaks/find_peaks/summits(heights/values: ints) -> list[int]",
        lambda xs: [b for a, b, c in zip(xs, xs[1:], xs[2:], strict=False) if a < b > c],
        "List the numbers that are strictly greater than both of their neighbours.",
        "Return all inner elements that are higher than the one before and the one after.",
    ),
    task(
        "rotate_list/rotate_left/spin(items/values: ints) -> list[int]",
        lambda xs, k: xs[k % len(xs) :] + xs[: k % len(xs)],
        "Rotate the list to the left by {k} places.",
        "Move the first {k} elements to the end, one at a time, so that any length works.",
        k=(1, 2, 3, 5),
    ),
    task(
        "move_to_end/push_back/shift_to_end(numbers/values: nats) -> list[int]",
        lambda xs, k: [x for x in xs if x % k] + [x for x in xs if x % k == 0],
        "Move the multiples of {k} to the end and keep the order otherwise.",
        "Stable partition: numbers not divisible by {k} first, then the divisible ones.",
        k=(2, 3, 5),
    ),
    task(
        "stable_dedupe/first_occurrences/drop_repeats_in_list(items/values: few) -> list[int]",
        lambda xs: list(dict.fromkeys(xs)),
        "Keep only the first occurrence of each value, in the original order.",
        "Return `{0}` without values that have come before.",
    ),
    task(
        "mode_of/most_common_value/top_value(values/items: few) -> int",
        lambda xs: min(xs, key=lambda x: (-xs.count(x), x)),
        "Return the value that occurs most often; the smallest of them if several do.",
        "Find the mode of a non-empty list. Ties are resolved in favour of the lower number.",
    ),
    task(
        "values_repeated/repeated_values/at_least_times(values/items: few) -> list[int]",
        lambda xs, k: sorted(x for x in set(xs) if xs.count(x) >= k),
        "List in ascending order the values that occur at least {k} times.",
        "Which numbers appear {k} times or more? Return them sorted, each once.",
        k=(2, 3),
    ),
    task(
        "count_pairs_with_difference/pairs_apart/gap_pairs(numbers/values: distinct) -> int",
        lambda xs, k: sum(abs(a - b) == k for a, b in combinations(xs, 2)),
        "Count the unordered pairs of numbers whose difference is exactly {k}.",
        "How many pairs of elements lie {k} apart? All numbers are distinct.",
        k=(1, 2, 3, 5),
    ),
    task(
        "best_trade/max_profit/best_single_sale(prices/quotes: positives) -> int",
        lambda xs: max(0, max(b - a for a, b in combinations(xs, 2))),
        "Compute the best profit from buying once and selling later; 0 if none is possible.",
        "Given daily prices, how much can one purchase followed by one sale earn at most?",
    ),
    task(
        "trapped_water/collect_rain/water_volume(heights/walls: nats) -> int",
        lambda h: sum(min(max(h[: i + 1]), max(h[i:])) - h[i] for i in range(len(h))),
        "Compute how much rain water stays between walls of the given heights.",
        "Each wall is one unit wide. Return the water trapped between higher walls.",
    ),
    task(
        "product_except_self/other_products/products_without(numbers/values: few) -> list[int]",
        lambda xs: [_product(xs[:i] + xs[i + 1 :]) for i in range(len(xs))],
        "Return for every position the product of all the other numbers.",
        "Element i of the result multiplies all the values but the i-th. Do not use division.",
    ),
    task(
        "insert_position/where_to_insert/lower_bound(numbers/sorted_values: ordered) -> int",
        lambda xs, k: bisect_left(xs, k),
        "Return the leftmost index at which {k} can be inserted so that the list stays sorted.",
        "Use binary search: how many elements of the ascending list are smaller than {k}?",
        k=(0, 4, 7, 10),
    ),
    task(
        "binary_search/find_sorted/locate(values/numbers: ordered) -> int",
        lambda xs, k: xs.index(k) if k in xs else -1,
        "Search the sorted list for {k}; return its first index, or -1 if it is missing.",
        "Given ascending numbers, return the position of {k} (the first one), else -1.",
        k=(2, 5, 8, 11),
    ),
    task(
        "merge_sorted/zip_sorted/combine_sorted(a/left: ordered, b/right: ordered) -> list[int]",
        lambda a, b: sorted(a + b),
        "Merge two sorted lists into one sorted list in linear time.",
        "Both lists are in ascending order. Combine them without calling a sort function.",
    ),
    task(
        "split_at_value/split_on/cut_at(values/items: few) -> list[list[int]]",
        lambda xs, k: _split(xs, k),
        "Split the list at every {k}, like str.split: the separator itself is dropped.",
        "Cut `{0}` wherever {k} occurs and return the parts, which may be empty.",
        k=(1, 2, 3),
    ),
    task(
        "sort_by_remainder/modulo_order/order_by_mod(numbers/values: nats) -> list[int]",
        lambda xs, k: sorted(xs, key=lambda x: (x % k, x)),
        "Sort the numbers by their remainder modulo {k}, and equal ones by value.",
        "Order by x % {k} first. Numbers with the same remainder are in ascending order.",
        k=(3, 4, 5, 7),
    ),
    task(
        "alternate_extremes/zigzag_sort/wave_sort(numbers/values: distinct) -> list[int]",
        lambda xs: (
            [y for p in zip(sorted(xs)[1::2], sorted(xs)[::2], strict=False) for y in p]
            + (sorted(xs)[-1:] if len(xs) % 2 else [])
        ),
        "Sort the numbers, then swap each neighbouring pair (1st with 2nd, 3rd with 4th, ...).",
        "Arrange in a wave: the sorted list with every pair exchanged; an odd last one stays.",
    ),
    task(
        "rank_values/competition_ranks/placings(scores/values: ints) -> list[int]",
        lambda xs: [1 + sum(y > x for y in xs) for x in xs],
        "Return the rank of every score, where 1 is the highest and equal scores share a rank.",
        "For each element, one plus the number of elements that are greater.",
    ),
    task(
        "count_inversions/num_inversions/out_of_order(numbers/values: ints) -> int",
        lambda xs: sum(a > b for a, b in combinations(xs, 2)),
        "Count the pairs in which a larger number stands before a smaller one.",
        "Return the number of inversions: i < j with element i greater than element j.",
    ),
    task(
        "longest_rise/longest_increasing_run/best_climb(numbers/values: ints) -> int",
        lambda xs: _longest_rise(xs),
        "Return the length of the longest strictly rising run of consecutive elements.",
        "How many numbers are in the longest stretch where each is larger than the one before?",
    ),
    task(
        "increasing_subsequence/lis_length/longest_chain(numbers/values: ints) -> int",
        lambda xs: _lis(xs),
        "Compute the length of the longest strictly increasing subsequence.",
        "Elements may be skipped but not reordered; how long can a rising selection be?",
    ),
    task(
        "clamp_all/limit_values/clip(numbers/values: ints) -> list[int]",
        lambda xs, a, b: [min(max(x, a), b) for x in xs],
        "Clamp every number to the range from {a} to {b}.",
        "Replace values below {a} by {a} and values above {b} by {b}.",
        a=(-3, 0, 1, 2),
        b=(5, 9, 12),
    ),
    task(
        "fill_gaps/forward_fill/carry_forward(values/series: gaps) -> list[int | None]",
        lambda xs: list(accumulate(xs, lambda a, b: a if b is None else b)),
        "Replace every None by the last known value before it; leading Nones stay.",
        "Forward-fill the missing entries of a series.",
    ),
    task(
        "replace_missing/default_missing/fill_with(values/readings: gaps) -> list[int]",
        lambda xs, k: [k if x is None else x for x in xs],
        "Replace each None in the list by {k}.",
        "Return the readings with {k} in place of missing ones.",
        k=(0, -1, 5, 100),
    ),
    task(
        "count_missing/num_missing/missing_share(values/readings: gaps) -> float",
        lambda xs: round(sum(x is None for x in xs) / len(xs), 2),
        "Compute the share of None values, from 0 to 1, rounded to two decimals.",
        "Which fraction of the entries is missing? Round to two places.",
    ),
    task(
        "z_normalise/centre/subtract_mean(values/numbers: floats) -> list[float]",
        lambda xs: [round(x - sum(xs) / len(xs), 2) for x in xs],
        "Subtract the mean from every value and round to two decimals.",
        "Centre the values around zero: return each one's deviation from the average.",
    ),
    task(
        "to_percentages/shares/as_percent(amounts/values: positives) -> list[float]",
        lambda xs: [round(100 * x / sum(xs), 1) for x in xs],
        "Convert the amounts to percentages of their total, with one decimal.",
        "Return how many percent of the sum each amount is, rounded to one place.",
    ),
    task(
        "trim_extremes/drop_outliers/trimmed_mean(values/scores: ints) -> float",
        lambda xs: round(sum(sorted(xs)[1:-1]) / (len(xs) - 2), 2),
        "Compute the mean without one smallest and one largest value, to two decimals.",
        "Like judges in sport: drop the best and the worst score and average the rest.",
    ),
    task(
        "partition_by/split_by_limit/low_and_high(numbers/values: ints) ->"
        " tuple[list[int], list[int]]",
        lambda xs, k: ([x for x in xs if x < k], [x for x in xs if x >= k]),
        "Split the list in two: numbers below {k}, and all others.",
        "Return a tuple of the elements smaller than {k} and those that are not.",
        k=(0, 2, 5, 7, 10),
    ),
    task(
        "longest_ones/longest_streak/max_ones(bits/flags: bits) -> int",
        lambda xs: max((len(list(g)) for x, g in groupby(xs) if x), default=0),
        "Return the length of the longest run of ones.",
        "Given a list of bits, find how many ones stand in a row at most.",
    ),
    task(
        "missing_numbers/find_missing/absent_from(numbers/values: few) -> list[int]",
        lambda xs, k: [x for x in range(1, k + 1) if x not in xs],
        "List the integers from 1 to {k} that do not occur.",
        "Return, in ascending order, which of 1..{k} are absent from `{0}`.",
        k=(4, 5, 6, 8),
    ),
    task(
        "equilibrium_index/balance_point/pivot(numbers/weights: bits) -> int",
        lambda xs: next((i for i in range(len(xs)) if sum(xs[:i]) == sum(xs[i + 1 :])), -1),
        "Find the first index where the sums to its left and to its right are equal, or -1.",
        "Return the smallest i with sum of elements before i equal to the sum after i; else -1.",
    ),
    task(
        "next_greater/next_larger/look_ahead(numbers/values: distinct) -> list[int]",
        lambda xs: [next((y for y in xs[i + 1 :] if y > x), -1) for i, x in enumerate(xs)],
        "Replace every number by the next larger one to its right, or -1.",
        "For each element find the nearest later element that is greater. Use a stack.",
    ),
    task(
        "pairwise_max/elementwise_max/upper_envelope(a/first: ints, b/second: ints) -> list[int]",
        lambda a, b: [max(x, y) for x, y in zip(a, b, strict=False)],
        "Return the larger of the two elements at every position, up to the shorter length.",
        "Combine two lists by taking maxima; surplus elements of the longer one are ignored.",
    ),
    task(
        "dot_product/inner_product/scalar_product(a/u: nats, b/v: nats) -> int",
        lambda a, b: sum(x * y for x, y in zip(a, b, strict=False)),
        "Compute the scalar product of two vectors; a shorter one counts as padded with zeros.",
        "Multiply elements at equal positions and add the products up.",
    ),
    task(
        "compare_lists/list_overlap/jaccard(a/first: few, b/second: few) -> float",
        lambda a, b: round(len(set(a) & set(b)) / len(set(a) | set(b)), 2),
        "Compute the Jaccard similarity of the sets of values, rounded to two decimals.",
        "Divide the number of shared distinct values by the number of all distinct values.",
    ),
    task(
        "count_occurrences_sorted/inventory/stock(items/goods: letters) -> list[tuple[str, int]]",
        lambda xs: sorted({x: xs.count(x) for x in xs}.items(), key=lambda p: (-p[1], p[0])),
        "Count the items and return (item, count) pairs, the most frequent first, then by name.",
        "Make an inventory: pairs in falling order of count; equal counts in alphabetical order.",
    ),
    task(
        "symmetric_difference/in_exactly_one/not_shared(a/first: few, b/second: nats) -> list[int]",
        lambda a, b: sorted(set(a) ^ set(b)),
        "List, sorted and without repeats, the values that occur in only one of the lists.",
        "Return what is in `{0}` or in `{1}` but not in both, in ascending order.",
    ),
    task(
        "subset_count/num_choices/count_subsets(flags/is_free: flags) -> int",
        lambda xs: 2 ** sum(xs),
        "Count the subsets of the positions that hold True; the empty one counts as well.",
        "How many ways are there to pick any number of the True entries?",
    ),
    task(
        "lru_order/cache_contents/recent_items(accesses/requests: letters) -> list[str]",
        lambda xs, k: list(dict.fromkeys(xs[::-1]))[:k],
        "Return the contents of an LRU cache of size {k} after the accesses, newest first.",
        "List the last {k} distinct items, the most recently used one first.",
        k=(2, 3),
    ),
    task(
        "row_totals/sum_rows/line_sums(matrix/table: matrix) -> list[int]",
        lambda m: [sum(r) for r in m],
        "Return the sum of every row.",
        "Given a table of integers, add up each line.",
    ),
    task(
        "column_maxima/max_columns/column_peaks(matrix/table: matrix) -> list[int]",
        lambda m: [max(c) for c in zip(*m, strict=True)],
        "Return the largest value of each column.",
        "Given rows of equal length, find every column's maximum.",
    ),
)


def _product(values: list[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def _split(values: list[int], separator: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    for value in values:
        if value == separator:
            parts.append([])
        else:
            parts[-1].append(value)
    return parts


def _longest_rise(values: list[int]) -> int:
    best = length = 1
    for before, value in pairwise(values):
        length = length + 1 if value > before else 1
        best = max(best, length)
    return best


def _lis(values: list[int]) -> int:
    lengths: list[int] = []
    for i, value in enumerate(values):
        lengths.append(1 + max((lengths[j] for j in range(i) if values[j] < value), default=0))
    return max(lengths)
