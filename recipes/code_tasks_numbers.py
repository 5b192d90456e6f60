"""Tasks on numbers: digits, divisors, sequences, bits and combinatorics."""

from __future__ import annotations

import math
from itertools import combinations

from recipes.code_tasks import Task, task

NUMBER_TASKS: tuple[Task, ...] = (
    task(
        "digital_root/repeated_digit_sum/reduce_digits(n/number: big) -> int",
        lambda n: 1 + (n - 1) % 9,
        "Add the decimal digits up again and again until a single digit is left.",
        "Return the digital root of a positive integer.",
    ),
    task(
        "persistence/multiplicative_persistence/steps_to_one_digit(n/number: big) -> int",
        lambda n: _persistence(n),
        "Count how often the digits have to be multiplied until one digit remains.",
        "Replace the number by the product of its digits until it has one digit; return the steps.",
    ),
    task(
        "reverse_number/mirror_digits/flip_number(n/value: any_int) -> int",
        lambda n: (1 if n >= 0 else -1) * int(str(abs(n))[::-1]),
        "Reverse the decimal digits of an integer and keep its sign.",
        "Return `{0}` read backwards; leading zeros vanish and the sign stays.",
    ),
    task(
        "digit_counts/has_digit/occurrences_of_digit(n/number: big) -> int",
        lambda n, d: str(n).count(str(d)),
        "Count how often the digit {d} occurs in the decimal form of `{0}`.",
        "How many digits of the number equal {d}?",
        d=(0, 1, 3, 5, 7, 9),
    ),
    task(
        "list_divisors/all_factors/divisors_of(n/number: number) -> list[int]",
        lambda n: [d for d in range(1, n + 1) if n % d == 0],
        "List every positive divisor of the number in ascending order.",
        "Which positive integers divide `{0}` without a remainder? Include 1 and itself.",
    ),
    task(
        "divisor_count/num_divisors/tau(n/number: number) -> int",
        lambda n: sum(n % d == 0 for d in range(1, n + 1)),
        "Count the positive divisors of `{0}` with a loop up to its square root.",
        "Return how many integers from 1 to n divide n.",
    ),
    task(
        "is_perfect/perfect_number/equals_divisor_sum(n/number: number) -> bool",
        lambda n: n > 1 and sum(d for d in range(1, n) if n % d == 0) == n,
        "Check whether the number equals the sum of its proper divisors.",
        "A perfect number, such as 6 or 28, is what its smaller divisors add up to. Test `{0}`.",
    ),
    task(
        "abundance/classify_number/nicomachus(n/number: number) -> str",
        lambda n: ("deficient", "perfect", "abundant")[
            1 + ((s := sum(d for d in range(1, n) if n % d == 0)) > n) - (s < n)
        ],
        "Classify the number as 'deficient', 'perfect' or 'abundant' by its proper divisors' sum.",
        "Compare the sum of the divisors below `{0}` with `{0}`: less, equal or more?",
    ),
    task(
        "lcm_of_all/least_multiple/common_multiple(numbers/values: positives) -> int",
        lambda xs: math.lcm(*xs),
        "Compute the least common multiple of all numbers in the list.",
        "Find the smallest positive integer that each element of `{0}` divides.",
    ),
    task(
        "coprime_count/totient/phi(n/number: number) -> int",
        lambda n: sum(math.gcd(n, k) == 1 for k in range(1, n + 1)),
        "Count the integers from 1 to `{0}` that share no factor with it.",
        "Return Euler's totient of a positive integer.",
    ),
    task(
        "primes_in_sieve/sieve_sum/sum_of_primes(limit/n: number) -> int",
        lambda n: sum(p for p in range(2, n) if all(p % d for d in range(2, p))),
        "Add up all primes below the limit with the sieve of Eratosthenes.",
        "Return the sum of the prime numbers smaller than `{0}`; 0 if there are none.",
    ),
    task(
        "next_prime/prime_after/following_prime(n/number: number) -> int",
        lambda n: next(p for p in range(n + 1, 2 * n + 3) if all(p % d for d in range(2, p))),
        "Find the smallest prime that is greater than `{0}`.",
        "Return the first prime number after the given positive integer.",
    ),
    task(
        "twin_primes/prime_twins/twins_below(limit/n: number) -> list[tuple[int, int]]",
        lambda n: [
            (p, p + 2) for p in range(3, n - 2) if all(p % d and (p + 2) % d for d in range(2, p))
        ],
        "List the pairs (p, p + 2) of primes in which both are below the limit.",
        "Find all twin primes smaller than `{0}`, as tuples in ascending order.",
    ),
    task(
        "goldbach/two_primes/split_into_primes(n/even: n) -> tuple[int, int]",
        lambda n: next(
            (p, 2 * n + 2 - p)
            for p in range(2, 2 * n + 2)
            if all(p % d and (2 * n + 2 - p) % d for d in range(2, p))
            and all((2 * n + 2 - p) % d for d in range(2, 2 * n + 2 - p))
        ),
        "Write 2 * `{0}` + 2 as the sum of two primes; return the pair with the smallest first.",
        "Find primes (p, q), p as small as possible, with p + q equal to 2 * (`{0}` + 1).",
    ),
    task(
        "collatz_steps/hailstone_length/steps_to_one(n/start: number) -> int",
        lambda n: _collatz(n),
        "Count the steps to 1 if even numbers are halved and odd n becomes 3n + 1.",
        "How many times must the Collatz rule be applied until the value is 1?",
    ),
    task(
        "triangular/stacked_rows/triangle_index(n/count: number) -> int",
        lambda n: (math.isqrt(8 * n + 1) - 1) // 2,
        "Find how many complete rows 1, 2, 3, ... can be built from `{0}` coins.",
        "Return the largest k for which k * (k + 1) / 2 does not exceed `{0}`.",
    ),
    task(
        "integer_root/floor_root/int_root(n/value: big) -> int",
        lambda n, k: max(x for x in range(round(n ** (1 / k)) + 2) if x**k <= n),
        "Compute the largest integer whose power with exponent {k} is not above `{0}`.",
        "Return the integer part of the root of degree {k}, using only integer arithmetic.",
        k=(2, 3, 4),
    ),
    task(
        "from_base/parse_base/value_of(digits/text: binary) -> int",
        lambda s, b: int(s, b),
        "Read the string as a number in base {b} without using int(text, base).",
        "Convert a string of digits in base {b} to an integer by Horner's rule.",
        b=(2, 3, 4, 5, 8),
    ),
    task(
        "count_set_bits/popcount/num_ones(n/value: number) -> int",
        lambda n: n.bit_count(),
        "Count the one bits in the binary form of a non-negative integer.",
        "How many bits of `{0}` are set? Use bit operations, not strings.",
    ),
    task(
        "toggle_bit/flip_bit/invert_bit(n/value: number) -> int",
        lambda n, k: n ^ (1 << k),
        "Flip bit {k} of the number, where bit 0 is the least significant one.",
        "Return `{0}` with the bit of weight 2**{k} inverted.",
        k=(0, 1, 2, 3, 5),
    ),
    task(
        "is_power_of_two/single_bit/has_one_bit(n/value: number) -> bool",
        lambda n: n & (n - 1) == 0,
        "Check with bit operations whether a positive integer is a power of two.",
        "Return True if exactly one bit of `{0}` is set.",
    ),
    task(
        "gray_code/to_gray/gray_of(n/index: number) -> int",
        lambda n: n ^ (n >> 1),
        "Compute the n-th value of the binary reflected Gray code.",
        "Return the Gray code of `{0}`: neighbouring inputs give outputs one bit apart.",
    ),
    task(
        "find_odd_one/xor_all/unpaired(values/numbers: few) -> int",
        lambda xs: _xor(xs),
        "Combine all numbers with exclusive or.",
        "Return the XOR of the elements, in which equal pairs cancel each other.",
    ),
    task(
        "bit_distance/differing_bits/hamming_bits(a/x: number, b/y: number) -> int",
        lambda a, b: (a ^ b).bit_count(),
        "Count the bit positions in which two integers differ.",
        "How many bits of `{0}` have to be flipped to get `{1}`?",
    ),
    task(
        "swap_halves/swap_nibbles/exchange_nibbles(byte/value: number) -> int",
        lambda n: (n & 15) << 4 | n >> 4,
        "Swap the upper and the lower four bits of a byte.",
        "Given a value from 0 to 255, exchange its two nibbles.",
    ),
    task(
        "pascal_row/binomial_row/triangle_row(n/index: n) -> list[int]",
        lambda n: [math.comb(n, k) for k in range(n + 1)],
        "Return row n of Pascal's triangle, where row 0 is [1].",
        "List the binomial coefficients of `{0}` over 0, 1, ..., `{0}`.",
    ),
    task(
        "choose/combinations_count/binomial(n/total: n, k/chosen: small) -> int",
        lambda n, k: math.comb(n, k),
        "Count the ways to choose `{1}` of `{0}` things, without math.comb.",
        "Return the binomial coefficient; it is 0 if `{1}` is greater than `{0}`.",
    ),
    task(
        "catalan/tree_shapes/catalan_number(n/index: n) -> int",
        lambda n: math.comb(2 * n, n) // (n + 1),
        "Compute the n-th Catalan number, where the 0-th is 1.",
        "How many binary trees with `{0}` nodes are there? Shapes only.",
    ),
    task(
        "climb_stairs/ways_to_climb/step_combinations(n/steps: n) -> int",
        lambda n, k: _stairs(n, k),
        "Count the ways to climb `{0}` steps when each stride takes 1 to {k} steps.",
        "In how many ordered ways can `{0}` be written as a sum of numbers from 1 to {k}?",
        k=(3, 4, 5),
    ),
    task(
        "linear_recurrence/sequence_term/custom_sequence(n/index: n) -> int",
        lambda n, a, b, c: _recurrence(n, a, b, c),
        "Compute s(`{0}`) with s(0) = {a}, s(1) = {b} and s(i) = {c} * s(i-1) + s(i-2).",
        "A sequence starts with {a}, {b}; each next term is {c} times the last one plus the one"
        " before that. Return the term with index `{0}`, counted from 0.",
        a=(0, 2, 3),
        b=(1, 4),
        c=(2, 3),
    ),
    task(
        "count_digits_total/digits_up_to/pages_digits(n/last: number) -> int",
        lambda n: sum(len(str(i)) for i in range(1, n + 1)),
        "Count the digits needed to number the pages of a book from 1 to `{0}`.",
        "How many digits are written in total when listing 1, 2, ..., `{0}`?",
    ),
    task(
        "sum_multiples/multiples_total/add_multiples(limit/n: number) -> int",
        lambda n, a, b: sum(i for i in range(n) if i % a == 0 or i % b == 0),
        "Add up the natural numbers below the limit that are multiples of {a} or {b}.",
        "Return the sum of all i < `{0}` divisible by {a} or by {b}; count each once.",
        a=(2, 3, 4),
        b=(5, 7, 9),
    ),
    task(
        "luhn_valid/checksum_ok/luhn_check(digits/number: digits) -> bool",
        lambda s: _luhn(s) == 0,
        "Check a string of digits with the Luhn formula.",
        "From the right, double every second digit (minus 9 if above 9). Is the sum divisible by"
        " 10?",
    ),
    task(
        "check_digit/weighted_check/control_digit(digits/code: digits) -> int",
        lambda s, m: sum(i * int(c) for i, c in enumerate(s, 1)) % m,
        "Weight each digit by its one-based position, add up, and reduce modulo {m}.",
        "Compute a check value: the sum of position times digit, modulo {m}.",
        m=(7, 9, 10, 11),
    ),
    task(
        "armstrong/is_narcissistic/equals_digit_powers(n/number: number) -> bool",
        lambda n: sum(int(c) ** len(str(n)) for c in str(n)) == n,
        "Check whether the number is the sum of its digits, each raised to the digit count.",
        "An Armstrong number such as 153 equals 1**3 + 5**3 + 3**3. Is `{0}` one?",
    ),
    task(
        "is_harshad/divisible_by_digit_sum/niven(n/number: number) -> bool",
        lambda n: n % sum(map(int, str(n))) == 0,
        "Check whether the sum of the decimal digits divides the number.",
        "Return True for a Harshad number, which is divisible by its digit sum.",
    ),
    task(
        "round_to_multiple/snap/nearest_step(value/n: number) -> int",
        lambda n, k: (n + k // 2) // k * k,
        "Round to the nearest multiple of {k}; halfway cases go up.",
        "Snap `{0}` to a grid of width {k}, upwards when it is exactly in the middle.",
        k=(4, 5, 10, 25),
    ),
    task(
        "ceil_div/pages_needed/num_boxes(count/items: number) -> int",
        lambda n, k: -(-n // k),
        "Compute how many boxes of {k} are needed for the items, without floats.",
        "Divide by {k} and round up, using integer arithmetic only.",
        k=(6, 8, 12, 20, 24),
    ),
    task(
        "make_change/min_coins/fewest_coins(amount/total: number) -> int",
        lambda n, coins: _coins(n, coins),
        "Return the least number of coins from {coins} that add up to the amount.",
        "Pay `{0}` with as few coins as possible. The available coins are {coins}.",
        coins=([1, 5, 10, 25], [1, 3, 4], [1, 7, 10], [1, 2, 5, 10, 20, 50]),
    ),
    task(
        "subset_sum/can_reach/reachable_total(numbers/values: distinct) -> bool",
        lambda xs, k: any(sum(c) == k for r in range(len(xs) + 1) for c in combinations(xs, r)),
        "Check whether some of the numbers, each used at most once, add up to {k}.",
        "Is there a subset with sum {k}? The empty subset has sum 0.",
        k=(11, 17, 21, 30),
    ),
    task(
        "pythagorean_triples/right_triples/integer_triangles(limit/n: n) ->"
        " list[tuple[int, int, int]]",
        lambda n, k: [
            (a, b, c)
            for c in range(1, n + k + 1)
            for a in range(1, c)
            for b in range(a, c)
            if a * a + b * b == c * c
        ],
        "List the triples a < b < c with a² + b² = c² and c at most `{0}` + {k}, ordered by c.",
        "Find all right triangles with integer sides whose hypotenuse is at most `{0}` + {k}.",
        k=(3, 5, 8),
    ),
    task(
        "look_and_say/say_digits/describe_digits(digits/text: digits) -> str",
        lambda s: _say(s),
        "Describe the string by count and digit of each run: '1121' becomes '211211'.",
        "Return the next look-and-say term: for each run of equal digits, its length, then it.",
    ),
    task(
        "continued_fraction/euclid_quotients/quotients(a/numerator: big, b/denominator: number) ->"
        " list[int]",
        lambda a, b: _quotients(a, b),
        "Compute the terms of the continued fraction of `{0}` / `{1}`.",
        "Run Euclid's algorithm on `{0}` and `{1}` and list the integer quotients.",
    ),
)


def _persistence(n: int) -> int:
    steps = 0
    while n > 9:
        n = math.prod(map(int, str(n)))
        steps += 1
    return steps


def _collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def _xor(values: list[int]) -> int:
    result = 0
    for value in values:
        result ^= value
    return result


def _stairs(n: int, stride: int) -> int:
    ways = [1]
    for _ in range(n):
        ways.append(sum(ways[-stride:]))
    return ways[n]


def _recurrence(n: int, first: int, second: int, factor: int) -> int:
    for _ in range(n):
        first, second = second, factor * second + first
    return first


def _luhn(digits: str) -> int:
    doubled = [2 * int(digit) for digit in digits[-2::-2]]
    return (sum(map(int, digits[::-2])) + sum(d - 9 * (d > 9) for d in doubled)) % 10


def _coins(amount: int, coins: list[int]) -> int:
    best = [0]
    for total in range(1, amount + 1):
        best.append(1 + min(best[total - coin] for coin in coins if coin <= total))
    return best[amount]


def _say(digits: str) -> str:
    text = ""
    while digits:
        rest = digits.lstrip(digits[0])
        text += f"{len(digits) - len(rest)}{digits[0]}"
        digits = rest
    return text


def _quotients(a: int, b: int) -> list[int]:
    quotients = []
    while b:
        quotients.append(a // b)
        a, b = b, a % b
    return quotients
