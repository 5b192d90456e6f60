"""A draft model whose vocabulary is not the target's: which method drafts for which request.

By token (`token_level.py`) where the request is sampled and at least `LEAST_SHARE` of its prompt's
tokens are in both vocabularies: real laws are then accepted more often than the draft's best
guess. By string (`string_level.py`) in all other cases: greedy requests lose nothing by it, and a
token that only the target has ends every draft by token. The prompt stands for the answer here,
since both are of one kind of text.

Both methods are exact for any pair of vocabularies; the rule is about speed alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from oneglance.config import EngineConfig
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.other_vocabulary_pair import VocabularyPair
from oneglance.drafters.string_level import StringLevelDrafter
from oneglance.drafters.token_level import TokenLevelDrafter
from oneglance.engine.base import Engine
from oneglance.types import Proposal

LEAST_SHARE = 0.95
"""Share of a prompt's tokens that both vocabularies must have for a draft by token."""


@dataclass(frozen=True)
class OtherVocabularySession:
    """A request, the method that drafts for it, and what that knows of it."""

    method: Drafter[Any]
    session: Any


class OtherVocabularyDrafter(Drafter[OtherVocabularySession]):
    """Drafts by string or by token, chosen per request."""

    def __init__(
        self,
        engine: Engine,
        pair: VocabularyPair,
        name: str = "draft",
        engine_config: EngineConfig = EngineConfig(),
    ) -> None:
        """Takes an engine for the draft model; arguments as for `TextDrafter`."""
        self.name = name
        self.own_bytes = engine.pass_bytes
        self._pair = pair
        self._by_string = StringLevelDrafter(engine, pair, name, engine_config)
        self._by_token = TokenLevelDrafter(engine, pair, name, engine_config)

    def start(self, context: DraftContext) -> OtherVocabularySession:
        """Chooses the method for a request."""
        method: Drafter[Any] = self._by_string
        if not context.params.is_greedy and self._pair.shared_share(context.prompt) >= LEAST_SHARE:
            method = self._by_token
        return OtherVocabularySession(method, method.start(context))

    def propose(self, requests: Sequence[DraftRequest[OtherVocabularySession]]) -> list[Proposal]:
        """Has each method draft for its requests together."""
        proposals: dict[int, Proposal] = {}
        methods: tuple[Drafter[Any], ...] = (self._by_string, self._by_token)
        for method in methods:
            own = [i for i, each in enumerate(requests) if each.session.method is method]
            inner: list[DraftRequest[Any]] = [
                replace(requests[i], session=requests[i].session.session) for i in own
            ]
            proposals |= zip(own, method.propose(inner), strict=True)
        return [proposals[index] for index in range(len(requests))]

    def observe(self, session: OtherVocabularySession, tokens: Sequence[int]) -> None:
        """Tells the request's method."""
        session.method.observe(session.session, tokens)

    def close(self, session: OtherVocabularySession) -> None:
        """Ends a request."""
        session.method.close(session.session)
