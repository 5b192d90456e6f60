"""What all routes share: the model, its scheduler, the settings, and who may ask."""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version

from oneglance.checkpoints.base import Tokenizer
from oneglance.llm import LLM
from oneglance.scheduler.scheduler import Scheduler
from oneglance.server.keys import ANYONE, Client, KeyRing
from oneglance.server.metrics import Metrics
from oneglance.server.settings import ServerSettings

NUM_WORKERS = 32
"""Requests that are handed to the scheduler at the same time; each waits for the end of a pass."""


@dataclass
class Traffic:
    """Requests that are being answered.

    Attributes:
        num_open: how many there are.
        is_draining: new ones are refused.
    """

    num_open: int = 0
    is_draining: bool = False


@dataclass
class Service:
    """A model that is being served.

    Attributes:
        llm: encodes prompts; the engine belongs to the scheduler's thread.
        scheduler: answers.
        settings: limits and names.
        keys: who may ask; an empty ring lets anyone.
        metrics: what is measured.
        traffic: what is under way.
        workers: threads in which requests are prepared and handed to the scheduler.
        created: when the model was loaded, in seconds since 1970.
    """

    llm: LLM
    scheduler: Scheduler
    settings: ServerSettings
    keys: KeyRing
    metrics: Metrics
    traffic: Traffic = field(default_factory=Traffic)
    workers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(NUM_WORKERS, "admission")
    )
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def of(cls, llm: LLM, scheduler: Scheduler, settings: ServerSettings, keys: KeyRing) -> Service:
        """A service whose figures are those of its scheduler."""
        return cls(llm, scheduler, settings, keys, Metrics(scheduler.stats, llm.pass_costs))

    def __post_init__(self) -> None:
        """Computes what stays the same."""
        self.fingerprint = _fingerprint(self.llm)

    def close(self) -> None:
        """Ends the workers; what they are at comes to its end."""
        self.workers.shutdown()

    @property
    def tokenizer(self) -> Tokenizer:
        """Of the model."""
        return self.llm.tokenizer

    @property
    def context_length(self) -> int:
        """Of the model, in tokens."""
        return self.llm.checkpoint.config.context_length

    @property
    def max_prompt_tokens(self) -> int:
        """Longest prompt that is taken."""
        limit = self.settings.max_prompt_tokens
        longest = self.context_length - 1  # one token of the answer must fit
        return longest if limit is None else min(limit, longest)

    def client_of(self, authorization: str | None) -> Client | None:
        """Who sends a request with this header; None: the key is missing or wrong."""
        if not len(self.keys):
            return ANYONE
        scheme, _, key = (authorization or "").partition(" ")
        found = self.keys.find(key.strip())
        return found if scheme.lower() == "bearer" else None


def _fingerprint(llm: LLM) -> str:
    """Names what the answers are a function of, besides the request."""
    info, checkpoint = llm.engine.info, llm.checkpoint
    parts = [
        version("oneglance"),
        checkpoint.name,
        checkpoint.quantization_summary(),
        checkpoint.tokenizer.fingerprint(),
        info.kind,
        info.weights,
    ]
    return "fp_" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
