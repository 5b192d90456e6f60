"""Tasks from daily life: dates, money, units, geometry, games and small simulations."""

from __future__ import annotations

import calendar
import itertools
import math
from collections.abc import Mapping
from datetime import date, timedelta

from recipes.code_tasks import Task, task

_SUFFIXES: Mapping[int, str] = {1: "st", 2: "nd", 3: "rd"}

WORLD_TASKS: tuple[Task, ...] = (
    task(
        "weekday_name/day_of_week/name_of_day(day/date_text: date) -> str",
        lambda s: calendar.day_name[date.fromisoformat(s).weekday()],
        "Return the English weekday of a date in the form YYYY-MM-DD.",
        "Given an ISO date, name its day of the week, such as 'Monday'.",
    ),
    task(
        "add_days/days_later/shift_date(day/start: date) -> str",
        lambda s, k: (date.fromisoformat(s) + timedelta(k)).isoformat(),
        "Return the date {k} days later in the same YYYY-MM-DD form.",
        "Add {k} days to an ISO date; months and leap years are taken into account.",
        k=(1, 7, 10, 30, 45, 90, 100),
    ),
    task(
        "days_between/date_difference/num_days(start/a: date, end/b: date) -> int",
        lambda a, b: abs((date.fromisoformat(b) - date.fromisoformat(a)).days),
        "Count the days from one ISO date to the other, regardless of their order.",
        "Return the absolute difference of two YYYY-MM-DD dates in days.",
    ),
    task(
        "day_of_year/ordinal_day/year_day(day/date_text: date) -> int",
        lambda s: date.fromisoformat(s).timetuple().tm_yday,
        "Return the number of the day within its year, where January 1st is 1.",
        "Which day of the year is the given ISO date? Do not use the datetime module.",
    ),
    task(
        "quarter/quarter_label/fiscal_quarter(day/date_text: date) -> str",
        lambda s: f"{s[:4]}-Q{(int(s[5:7]) + 2) // 3}",
        "Return the calendar quarter of an ISO date in the form '2024-Q3'.",
        "Label a YYYY-MM-DD date by its year and quarter, joined by '-Q'.",
    ),
    task(
        "is_leap_date/in_leap_year/leap_check(day/date_text: date) -> bool",
        lambda s: calendar.isleap(int(s[:4])),
        "Check whether the date lies in a leap year of the Gregorian calendar.",
        "Take the year from a YYYY-MM-DD string and say whether it has 366 days.",
    ),
    task(
        "month_length/days_in_month/last_day(day/date_text: date) -> int",
        lambda s: calendar.monthrange(int(s[:4]), int(s[5:7]))[1],
        "Return how many days the month of the given ISO date has.",
        "Which is the last day of the month that `{0}` lies in? Mind leap years.",
    ),
    task(
        "european_date/reformat_date/date_style(day/iso: date) -> str",
        lambda s, c: c.join(s.split("-")[::-1]),
        "Rewrite an ISO date with the day first and '{c}' as the separator.",
        "Convert YYYY-MM-DD to DD{c}MM{c}YYYY.",
        c=(".", "/", " "),
    ),
    task(
        "next_weekend/days_to_saturday/until_saturday(day/today: date) -> int",
        lambda s: (5 - date.fromisoformat(s).weekday()) % 7,
        "Count the days until the next Saturday; 0 if the date is a Saturday.",
        "How many days after the ISO date `{0}` is it Saturday for the first time?",
    ),
    task(
        "clock_to_minutes/minutes_of_day/parse_clock(clock/time: clock) -> int",
        lambda s: int(s[:2]) * 60 + int(s[3:]),
        "Convert a time 'HH:MM' to minutes after midnight.",
        "Parse a 24-hour clock time and return the minutes since 00:00.",
    ),
    task(
        "add_minutes/clock_plus/later_time(clock/start: clock) -> str",
        lambda s, k: (lambda m: f"{m // 60 % 24:02}:{m % 60:02}")(int(s[:2]) * 60 + int(s[3:]) + k),
        "Return the clock time {k} minutes later, wrapping around at midnight.",
        "Add {k} minutes to 'HH:MM' and return the result in the same format.",
        k=(15, 25, 45, 90, 150, 600),
    ),
    task(
        "twelve_hour/to_am_pm/spoken_time(clock/time: clock) -> str",
        lambda s: f"{(int(s[:2]) - 1) % 12 + 1}:{s[3:]} {'AM' if int(s[:2]) < 12 else 'PM'}",
        "Convert a 24-hour time 'HH:MM' to the 12-hour form, such as '1:05 PM'.",
        "Write the time with AM or PM. The hour has no leading zero; midnight is 12.",
    ),
    task(
        "clock_angle/hand_angle/angle_of_hands(clock/time: clock) -> float",
        lambda s: (lambda a: min(a, 360 - a))(abs(30 * (int(s[:2]) % 12) - 5.5 * int(s[3:]))),
        "Compute the smaller angle, in degrees, between the hands of an analogue clock.",
        "Both hands move steadily. Return the angle between them as a float of at most 180.",
    ),
    task(
        "format_duration/human_time/pretty_seconds(seconds/total: big) -> str",
        lambda n: f"{n // 3600}h {n // 60 % 60}m {n % 60}s",
        "Format a number of seconds as hours, minutes and seconds, like '1h 2m 3s'.",
        "Split seconds into hours, minutes and seconds. All three are always shown.",
    ),
    task(
        "human_size/format_bytes/file_size(size/num_bytes: big) -> str",
        lambda n, b: f"{n / b:.1f} kB" if n >= b else f"{n} B",
        "Format a size: below {b} as bytes ('12 B'), else in units of {b} as '1.5 kB'.",
        "Write a number of bytes for people. A kB has {b} bytes and is shown with one decimal.",
        b=(1000, 1024),
    ),
    task(
        "to_fahrenheit/convert_celsius/fahrenheit(celsius/degrees: real) -> float",
        lambda c: round(c * 9 / 5 + 32, 1),
        "Convert degrees Celsius to Fahrenheit, rounded to one decimal.",
        "Return the temperature in Fahrenheit: nine fifths of it plus 32, to one place.",
    ),
    task(
        "pace/minutes_per_km/running_pace(distance/km: real, minutes/time: number) -> float",
        lambda d, m: round(m / d, 2),
        "Compute the pace in minutes per kilometre, rounded to two decimals.",
        "Divide the minutes by the kilometres; raise ValueError if the distance is not positive.",
    ),
    task(
        "body_mass_index/bmi/bmi_of(weight/kilograms: real) -> float",
        lambda w, h: round(w / h**2, 1),
        "Compute the body mass index for a height of {h} m, rounded to one decimal.",
        "Divide the weight in kilograms by the square of {h} metres. Round to one place.",
        h=(1.6, 1.7, 1.75, 1.8, 1.9),
    ),
    task(
        "price_with_tax/gross_price/add_tax(net/price: real) -> float",
        lambda x, r: round(x * (100 + r) / 100, 2),
        "Add a tax of {r} percent to the price and round to cents.",
        "Return the gross price for a net price and a tax rate of {r}%, to two decimals.",
        r=(5, 8, 19, 20, 21),
    ),
    task(
        "discounted/bulk_discount/order_total(price/unit_price: real, count/quantity: n) -> float",
        lambda p, n, k, r: round(p * n * (1 - r / 100 if n >= k else 1), 2),
        "Compute the total; {k} or more pieces get a discount of {r} percent. Round to cents.",
        "Multiply price and quantity. From {k} items on, take {r}% off. Two decimals.",
        k=(3, 5, 10),
        r=(5, 10, 20),
    ),
    task(
        "compound_interest/future_value/grow_capital(capital/amount: real, years: n) -> float",
        lambda c, n, r: round(c * (1 + r / 100) ** n, 2),
        "Compute the capital after yearly compound interest of {r} percent, to two decimals.",
        "Let `{0}` grow by {r}% a year for `{1}` years and round the result to cents.",
        r=(1, 2, 3, 4, 5),
    ),
    task(
        "years_to_double/doubling_time/growth_years(start/amount: real) -> int",
        lambda _, r, k: math.ceil(math.log(k) / math.log(1 + r / 100)),
        "Count the full years until `{0}` has grown {k}-fold at {r} percent a year.",
        "How many yearly increases of {r}% does it take to reach at least {k} times `{0}`?",
        r=(3, 4, 6, 7),
        k=(2, 3, 5),
    ),
    task(
        "split_bill/fair_shares/divide_cents(cents/total: big) -> list[int]",
        lambda n, k: [n // k + (i < n % k) for i in range(k)],
        "Split an amount of cents among {k} people; earlier ones pay a cent more if need be.",
        "Return {k} integers that add up to `{0}` and differ by at most one, larger ones first.",
        k=(2, 3, 4, 6, 7),
    ),
    task(
        "income_tax/progressive_tax/tax_due(income/earnings: big) -> float",
        lambda n, k, a, b: round(min(n, k) * a / 100 + max(0, n - k) * b / 100, 2),
        "Compute the tax: {a} percent of the first {k} and {b} percent of the rest.",
        "Income up to {k} is taxed at {a}%, the part above it at {b}%. Round to two decimals.",
        k=(10000, 20000, 50000),
        a=(0, 10, 15),
        b=(20, 30, 42),
    ),
    task(
        "balance_after/final_balance/run_account(changes/transactions: ints) -> int",
        lambda xs, k: _balance(xs, k),
        "Apply the changes to a balance of {k}; skip every withdrawal that would go below 0.",
        "Start with {k}. A negative change is refused if the money does not suffice.",
        k=(0, 5, 10),
    ),
    task(
        "postage/shipping_cost/parcel_price(weight/grams: big) -> int",
        lambda w, k, a: a + a * -(-max(0, w - k) // 1000),
        "Compute the postage: {a} for up to {k} g, plus {a} for each further 1000 g begun.",
        "A parcel of at most {k} grams costs {a}. Every started kilogram above that adds {a}.",
        k=(500, 1000, 2000),
        a=(3, 4, 5),
    ),
    task(
        "distance/euclidean/point_distance(a/p: point, b/q: point) -> float",
        lambda a, b: round(math.dist(a, b), 2),
        "Compute the Euclidean distance of two points, rounded to two decimals.",
        "Return the length of the straight line between (x, y) pairs, to two places.",
    ),
    task(
        "taxi_distance/manhattan/city_blocks(a/start: point, b/goal: point) -> int",
        lambda a, b: abs(a[0] - b[0]) + abs(a[1] - b[1]),
        "Compute the Manhattan distance of two grid points.",
        "How many unit steps along the axes lead from `{0}` to `{1}` at least?",
    ),
    task(
        "quadrant/which_quadrant/locate_point(point/p: point) -> int",
        lambda p: 0 if not p[0] * p[1] else (1 if p[1] > 0 else 4) if p[0] > 0 else 3 - (p[1] > 0),
        "Return the quadrant, 1 to 4, that the point lies in, or 0 if it is on an axis.",
        "Quadrants are counted anticlockwise from the upper right one. On an axis return 0.",
    ),
    task(
        "bounding_box/enclosing_box/extent(points/vertices: points) -> tuple[int, int, int, int]",
        lambda ps: (
            min(x for x, _ in ps),
            min(y for _, y in ps),
            max(x for x, _ in ps),
            max(y for _, y in ps),
        ),
        "Return (min x, min y, max x, max y) of the points.",
        "Find the smallest axis-parallel rectangle around all points, as four numbers.",
    ),
    task(
        "polygon_area/shoelace/enclosed_area(points/corners: points) -> float",
        lambda ps: (
            abs(sum(a[0] * b[1] - a[1] * b[0] for a, b in zip(ps, ps[1:] + ps[:1], strict=True)))
            / 2
        ),
        "Compute half the absolute shoelace sum over the corners, in the given order.",
        "Return a polygon's area by the shoelace formula; the last corner joins the first.",
    ),
    task(
        "path_length/route_length/tour_length(points/stops: points) -> float",
        lambda ps: round(sum(math.dist(a, b) for a, b in itertools.pairwise(ps)), 2),
        "Add up the distances between consecutive points, rounded to two decimals.",
        "How long is the open path through all the points in their order? Two decimals.",
    ),
    task(
        "nearest_point/closest_to_origin/nearest_stop(points/places: points) -> tuple[int, int]",
        lambda ps: min(ps, key=lambda p: (p[0] ** 2 + p[1] ** 2, p)),
        "Find the point nearest to the origin; of equally near ones, the smallest tuple.",
        "Return the place with the least distance to (0, 0). Ties go to the smaller tuple.",
    ),
    task(
        "circle_count/inside_circle/points_within(points/hits: points) -> int",
        lambda ps, r: sum(x * x + y * y <= r * r for x, y in ps),
        "Count the points at a distance of at most {r} from the origin.",
        "How many points lie inside, or on the edge of, the circle of radius {r} around (0, 0)?",
        r=(3, 4, 5, 6, 8),
    ),
    task(
        "cylinder_volume/tank_volume/litres_in_tank(radius/r: real) -> float",
        lambda x, h: round(math.pi * x * x * h, 1),
        "Compute the volume of a cylinder of height {h}, rounded to one decimal.",
        "Multiply the area of a circle of radius `{0}` by {h}. Round to one place.",
        h=(2, 3, 5, 10),
    ),
    task(
        "robot_position/follow_moves/walk(moves/commands: moves) -> tuple[int, int]",
        lambda s: (s.count("R") - s.count("L"), s.count("U") - s.count("D")),
        "Follow the moves U, D, L and R from (0, 0) and return the final (x, y).",
        "A robot takes one unit step for each letter; up raises y, right raises x. Where is it?",
    ),
    task(
        "cells_visited/visited_places/unique_cells(moves/path: moves) -> int",
        lambda s: _visited(s),
        "Count the different grid cells a robot visits, its start included.",
        "Every letter U, D, L or R is a step. How many distinct positions occur?",
    ),
    task(
        "dice_ways/roll_combinations/count_rolls(total/target: n) -> int",
        lambda n, k: _rolls(n, k),
        "Count the ordered ways in which {k} six-sided dice show a sum of `{0}`.",
        "How many of the 6**{k} outcomes of {k} dice add up to `{0}`?",
        k=(2, 3),
    ),
    task(
        "bounce_total/ball_distance/bouncing_ball(height/drop: number) -> int",
        lambda h, k: _bounces(h, k),
        "Count the bounces of a ball until it no longer rises above {k}; each halves the height.",
        "A ball falls from `{0}` and rises to half of it each time. How often does it exceed {k}?",
        k=(1, 2, 5),
    ),
    task(
        "bottle_exchange/total_drinks/refills(bottles/full: number) -> int",
        lambda n, k: n + (n - 1) // (k - 1),
        "Count the bottles one can drink when {k} empty ones are exchanged for a full one.",
        "Start with `{0}` full bottles. Swap {k} empties for one more as long as possible.",
        k=(3, 4, 5),
    ),
    task(
        "light_switches/open_lockers/toggled_on(n/doors: number) -> int",
        lambda n: math.isqrt(n),
        "Count the lights left on if round k toggles each k-th of `{0}` lights, k = 1 to `{0}`.",
        "All doors are closed; pass k toggles every k-th door. How many are open in the end?",
    ),
    task(
        "seating_rows/cinema_seat/seat_label(index/number: number) -> str",
        lambda n, k: f"{chr(65 + (n - 1) // k % 26)}{(n - 1) % k + 1}",
        "Convert a seat number, counted from 1, to a label like 'B3' with {k} seats a row.",
        "Rows have {k} seats and the letters A, B, ... (after Z comes A). Return row and seat.",
        k=(8, 10, 12),
    ),
    task(
        "column_name/sheet_column/spreadsheet_label(index/number: number) -> str",
        lambda n: _column(n),
        "Convert a column number to its spreadsheet label: 1 is A, 26 is Z and 27 is AA.",
        "Return the letters that a spreadsheet shows above column `{0}`, counted from 1.",
    ),
    task(
        "rgb_to_hex/css_color/color_code(red/r: number, green/g: number, blue/b: number) -> str",
        lambda r, g, b: f"#{r:02x}{g:02x}{b:02x}",
        "Format three colour channels from 0 to 255 as a CSS colour like '#0a10ff'.",
        "Return the lower-case hex code of a colour, with two digits for each channel.",
    ),
    task(
        "ordinal/with_suffix/ordinal_text(n/position: number) -> str",
        lambda n: f"{n}" + ("th" if n % 100 in (11, 12, 13) else _SUFFIXES.get(n % 10, "th")),
        "Write the number as an English ordinal, such as '1st', '22nd' or '113th'.",
        "Append st, nd, rd or th to the digits. Mind 11, 12 and 13.",
    ),
    task(
        "shift_hours/overtime/overtime_hours(hours/worked: positives) -> int",
        lambda xs, k: sum(max(0, x - k) for x in xs),
        "Add up the hours above {k} of each shift.",
        "Each number is a day's work; whatever exceeds {k} hours is overtime. Return its total.",
        k=(6, 7, 8, 10),
    ),
)


def _balance(changes: list[int], balance: int) -> int:
    for change in changes:
        if balance + change >= 0:
            balance += change
    return balance


def _visited(moves: str) -> int:
    x = y = 0
    seen = {(0, 0)}
    for move in moves:
        x += (move == "R") - (move == "L")
        y += (move == "U") - (move == "D")
        seen.add((x, y))
    return len(seen)


def _rolls(total: int, dice: int) -> int:
    if dice == 0:
        return int(total == 0)
    return sum(_rolls(total - face, dice - 1) for face in range(1, 7))


def _bounces(height: float, limit: int) -> int:
    count = 0
    while height / 2 > limit:
        height /= 2
        count += 1
    return count


def _column(number: int) -> str:
    label = ""
    while number:
        number, rest = divmod(number - 1, 26)
        label = chr(65 + rest) + label
    return label
