"""What a scheduler tells of itself: counts since it began, and the state after the last pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class PassRows:
    """What one pass evaluated.

    Attributes:
        prompt: rows of prompts.
        decided: last decided tokens, one for each request that decodes.
        drafted: draft tokens.
    """

    prompt: int = 0
    decided: int = 0
    drafted: int = 0


@dataclass
class SchedulerStats:
    """A snapshot. What is counted is counted since the scheduler began, over all requests.

    Attributes:
        num_waiting: requests that wait.
        num_reading: running requests whose prompt is not evaluated yet.
        num_decoding: running requests that decode.
        is_draining: new requests are refused.
        num_passes: passes of the target.
        last_pass: rows of the last pass.
        rows: rows of all passes together.
        num_submitted: requests that were accepted.
        ended: requests that ended, by how: "stop", "length", "cancelled", "deadline", "error" or
            "shutdown".
        num_preemptions: how often a request lost its pages and was begun again.
        prompt_tokens: of admitted requests, counted once for each.
        cached_prompt_tokens: of those, how many were cached already.
        num_prefix_hits: admitted requests of whose prompt something was cached.
        num_cached_tokens: tokens whose keys and values are kept at present.
        pages_total: pages that there may be; None: no limit.
        pages_used: pages in use, those of cached prefixes included; None: the engine has none.
        delivered_tokens: tokens of answers.
        drafted_by_depth: draft tokens that were verified, by their depth, from 1.
        accepted_by_depth: of those, how many were delivered.
        accepted_lengths: passes of requests, by how many draft tokens were delivered.
        drafted_lengths: passes of requests, by the depth of the draft that was verified.
        mean_k: depth of the drafts of the last pass with decoding requests, averaged over them.
    """

    num_waiting: int = 0
    num_reading: int = 0
    num_decoding: int = 0
    is_draining: bool = False
    num_passes: int = 0
    last_pass: PassRows = field(default_factory=PassRows)
    rows: PassRows = field(default_factory=PassRows)
    num_submitted: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    num_preemptions: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    num_prefix_hits: int = 0
    num_cached_tokens: int = 0
    pages_total: int | None = None
    pages_used: int | None = None
    delivered_tokens: int = 0
    drafted_by_depth: Counter[int] = field(default_factory=Counter)
    accepted_by_depth: Counter[int] = field(default_factory=Counter)
    accepted_lengths: Counter[int] = field(default_factory=Counter)
    drafted_lengths: Counter[int] = field(default_factory=Counter)
    mean_k: float = 0.0
