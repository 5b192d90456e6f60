"""What the server measures: one definition for each figure of `/metrics`.

The documentation shows this table, and a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class Definition:
    """A figure.

    Attributes:
        name: without the suffixes that Prometheus adds (`_total` to a counter).
        kind: counters only grow, since the server began.
        text: what is counted or measured.
        labels: by what it is split.
    """

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()


_TABLE = (
    Definition("oneglance_passes", "counter", "Passes of the target model."),
    Definition(
        "oneglance_rows",
        "counter",
        "Rows of all passes: of prompts, of last decided tokens (one for each answer that is "
        "being decoded), of draft tokens.",
        ("kind",),
    ),
    Definition("oneglance_batch_rows", "gauge", "Rows of the last pass, by kind.", ("kind",)),
    Definition(
        "oneglance_drafted_tokens",
        "counter",
        "Draft tokens that were verified, by their depth in the draft, from 1.",
        ("depth",),
    ),
    Definition(
        "oneglance_accepted_tokens",
        "counter",
        "Draft tokens that were delivered, by their depth in the draft.",
        ("depth",),
    ),
    Definition(
        "oneglance_accepted_length",
        "histogram",
        "Draft tokens that one pass delivered to one answer.",
    ),
    Definition(
        "oneglance_draft_length",
        "histogram",
        "K in force: depth of the draft that one pass verified for one answer.",
    ),
    Definition(
        "oneglance_draft_length_in_force",
        "gauge",
        "Depth of the drafts of the last pass, averaged over the answers that were being decoded.",
    ),
    Definition(
        "oneglance_regime",
        "gauge",
        "1 for the regime of the last pass, 0 for the other: compute where a pass of twice its "
        "rows would take more than 1.5 times as long, else memory.",
        ("regime",),
    ),
    Definition(
        "oneglance_pass_growth",
        "gauge",
        "How many times as long as a pass of the last one's rows one of twice as many would take, "
        "by what passes have cost here so far: 1 where memory alone counts, 2 where arithmetic "
        "does.",
    ),
    Definition("oneglance_waiting_requests", "gauge", "Requests that wait for their first pass."),
    Definition(
        "oneglance_running_requests",
        "gauge",
        "Requests that take part in passes: reading their prompt, or decoding.",
        ("phase",),
    ),
    Definition(
        "oneglance_requests",
        "counter",
        "Requests that ended: stop, length, cancelled, deadline, error or shutdown. Each answer "
        "of n is one.",
        ("ending",),
    ),
    Definition(
        "oneglance_preemptions",
        "counter",
        "How often a request lost its pages to others and was begun again.",
    ),
    Definition("oneglance_prompt_tokens", "counter", "Tokens of prompts that were admitted."),
    Definition(
        "oneglance_cached_prompt_tokens",
        "counter",
        "Tokens of these prompts whose keys and values were cached already.",
    ),
    Definition(
        "oneglance_prefix_hits",
        "counter",
        "Admitted requests of whose prompt something was cached.",
    ),
    Definition(
        "oneglance_cached_tokens", "gauge", "Tokens whose keys and values are kept for prompts."
    ),
    Definition(
        "oneglance_kv_pages",
        "gauge",
        "Pages of the key-value cache: used, cached prefixes included, and, where there is a "
        "limit, in all.",
        ("state",),
    ),
    Definition("oneglance_delivered_tokens", "counter", "Tokens of answers."),
    Definition(
        "oneglance_time_to_first_token_seconds",
        "histogram",
        "From the moment that a request was taken until its first token, waiting included.",
    ),
    Definition(
        "oneglance_time_per_token_seconds",
        "histogram",
        "Time from the first token of an answer to its end, divided by the tokens after the "
        "first; one value for each answer of two tokens or more.",
    ),
    Definition(
        "oneglance_http_responses",
        "counter",
        "Responses by path and status; paths that do not exist are counted together.",
        ("path", "status"),
    ),
    Definition("oneglance_draining", "gauge", "1 while the server takes no new requests, else 0."),
)

DEFINITIONS = {each.name: each for each in _TABLE}
