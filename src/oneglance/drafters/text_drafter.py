"""What the two methods for a draft model of another vocabulary share: its text and its cache."""

from __future__ import annotations

from typing import TypeVar

from oneglance.config import EngineConfig
from oneglance.drafters.base import DraftContext, Drafter
from oneglance.drafters.other_vocabulary_pair import VocabularyPair
from oneglance.drafters.other_vocabulary_text import DraftText, TextCache
from oneglance.engine.base import Engine
from oneglance.engine.prefix import PrefixStore

Session = TypeVar("Session")


class TextDrafter(Drafter[Session]):
    """Runs a draft model on the text of each request; subclasses say how its tokens are used."""

    def __init__(
        self,
        engine: Engine,
        pair: VocabularyPair,
        name: str = "draft",
        engine_config: EngineConfig = EngineConfig(),
    ) -> None:
        """Takes an engine for the draft model.

        Args:
            engine: holds the draft model; the drafter opens and closes sequences in it.
            pair: the vocabularies of target and draft model.
            name: shown as the drafter of its tokens.
            engine_config: `prefill_chunk` and `num_kept_prefixes` are read.
        """
        self.name = name
        self._engine = engine
        self._pair = pair
        self._prefill_chunk = engine_config.prefill_chunk
        self._prefixes = PrefixStore(engine, engine_config.num_kept_prefixes)

    def _open(self, context: DraftContext) -> tuple[DraftText, TextCache]:
        """The prompt in the draft model's tokens; they are fed with the first draft."""
        text = DraftText(self._pair, context.prompt)
        tenant = context.hints.tenant
        return text, TextCache(self._engine, self._prefixes, text, self._prefill_chunk, tenant)
