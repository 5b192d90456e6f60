"""How a scheduler is sized."""

from __future__ import annotations

from dataclasses import dataclass

from oneglance.errors import ParameterError


@dataclass(frozen=True)
class SchedulerConfig:
    """Limits of what runs and waits at the same time. None of them changes a token.

    Attributes:
        max_running: most requests that take part in passes at the same time.
        max_waiting: most requests that may wait; more are refused.
        pass_rows: rows of a pass that prompts may fill up to. Verification comes first and is
            never cut by it: how much is drafted is for the controller to decide.
        min_prompt_rows: so many rows of prompts are evaluated in each pass even where verification
            has taken all, so that new requests get on.
        ageing_seconds: a request counts as having come so much earlier for each step of its
            priority. So a high priority goes first, but not for ever.
        cached_tokens: most tokens of ended and running prompts and answers whose keys and values
            are kept for requests that begin alike; 0 keeps none. In a cache of limited size they
            give way to requests in progress.
    """

    max_running: int = 32
    max_waiting: int = 256
    pass_rows: int = 64
    min_prompt_rows: int = 16
    ageing_seconds: float = 10.0
    cached_tokens: int = 8192

    def __post_init__(self) -> None:
        """Refuses values that have no meaning.

        Raises:
            ParameterError: names the parameter, its value and the range that is allowed.
        """
        at_least = {
            "max_running": 1,
            "max_waiting": 1,
            "pass_rows": 1,
            "min_prompt_rows": 1,
            "cached_tokens": 0,
        }
        for name, least in at_least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ParameterError(
                    f"{name} = {value!r} cannot be used; it must be a whole number of at least "
                    f"{least}."
                )
        if not self.ageing_seconds >= 0:
            raise ParameterError(
                f"ageing_seconds = {self.ageing_seconds!r} cannot be used; it must be 0 or more."
            )
