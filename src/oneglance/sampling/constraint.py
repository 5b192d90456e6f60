"""Compiles constraints for a vocabulary with the library llguidance, once for all requests.

llguidance (Moskal et al., MIT licence) follows a grammar byte by byte through every token of the
vocabulary. Where the grammar leaves one continuation only, it allows the one token that the model's
tokenizer would divide it into, so that certain text is certain in tokens too. That is part of the
law, the same with and without drafts.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from functools import cached_property
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from oneglance.constraints import Constraint, TokenMask
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.sampling.grammar_mask import GrammarMask, first_line
from oneglance.sampling.grammar_tokens import GrammarTokens, TokenTable
from oneglance.sampling.lark_options import check_lark_options

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_NUM_KEPT = 32
"""Compiled grammars that are kept; an empty one takes little, the masks' caches some megabytes."""

_WHITESPACE = r"[\x20\x0A\x0D\x09]{1,40}"
"""Between the parts of JSON. Without an upper bound a model can go on with it for ever."""


class Grammars:
    """Compiles constraints and remembers the last ones."""

    def __init__(self, table: TokenTable) -> None:
        """Takes the vocabulary; nothing is done with it before the first constraint."""
        self._table = table
        self._compiled: OrderedDict[Constraint, LLMatcher] = OrderedDict()
        self._lock = Lock()  # requests are checked in the threads that they come from

    def check(self, constraint: Constraint | TokenMask | None) -> None:
        """Refuses what cannot be enforced exactly.

        Raises:
            UnsupportedError: llguidance is not installed, or the model has no end-of-text token.
            ParameterError: the constraint is wrong, uses what the library does not know, or
                demands at once what no token of the model spells.
        """
        if isinstance(constraint, Constraint):
            self._matcher(constraint)

    def mask(self, constraint: Constraint | TokenMask | None) -> TokenMask | None:
        """A constraint for one request; `check` has accepted it."""
        if isinstance(constraint, Constraint):
            return self._mask(self._matcher(constraint))
        return constraint

    def _mask(self, matcher: LLMatcher) -> GrammarMask:
        return GrammarMask(matcher, self._table.vocab_size, self._table.eos_ids)

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        from llguidance import LLTokenizer, TokenizerWrapper

        wrapper = TokenizerWrapper(GrammarTokens(self._table))
        return LLTokenizer(wrapper, eos_token=sorted(self._table.eos_ids))

    def _matcher(self, constraint: Constraint) -> LLMatcher:
        """The compiled grammar, at its beginning; it must not be moved."""
        with self._lock:
            known = self._compiled.get(constraint)
            if known is not None:
                self._compiled.move_to_end(constraint)
                return known
        self._check_possible(constraint)
        matcher = self._compile(constraint)
        with self._lock:
            self._compiled[constraint] = matcher
            if len(self._compiled) > _NUM_KEPT:
                self._compiled.popitem(last=False)
        return matcher

    def _check_possible(self, constraint: Constraint) -> None:
        if find_spec("llguidance") is None:
            raise UnsupportedError(
                f"{constraint.name} needs the library llguidance, which is not installed; run "
                "pip install 'oneglance[grammar]'."
            )
        if not self._table.eos_ids:
            raise UnsupportedError(
                f"{constraint.name} cannot be used: the model has no end-of-text token, so that "
                "an answer could not end where the constraint does; use another model."
            )
        if constraint.kind == "lark":
            check_lark_options(constraint)

    def _compile(self, constraint: Constraint) -> LLMatcher:
        from llguidance import LLMatcher

        grammar = _source(constraint)
        is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar, self._tokenizer)
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        if is_error or matcher.is_error():
            reason = first_line(messages[0] if is_error else matcher.get_error())
            raise ParameterError(f"{constraint.name} cannot be used: {reason}; correct it.")
        allowed = self._mask(matcher).allowed(())
        assert allowed is not None, "an empty output is no impossible one"
        self._check_rollback(constraint, matcher, np.flatnonzero(allowed).tolist())
        return matcher

    def _check_rollback(
        self, constraint: Constraint, matcher: LLMatcher, first_tokens: list[int]
    ) -> None:
        """Refuses rules from which there is no way back, as there must be behind a wrong draft."""
        moved = matcher.deep_copy()
        texts = [token for token in first_tokens if token not in self._table.eos_ids]
        if texts and not (moved.consume_token(texts[-1]) and moved.rollback(1)):
            raise ParameterError(
                f"{constraint.name} cannot be used: {first_line(moved.get_error())}; use other "
                "rules."
            )


def _source(constraint: Constraint) -> str:
    """The constraint as the library reads it."""
    from llguidance import LLMatcher

    if constraint.kind == "regex":
        return LLMatcher.grammar_from_regex(constraint.text)
    if constraint.kind == "lark":
        return LLMatcher.grammar_from_lark(constraint.text)
    options = json.loads(constraint.text).get("x-guidance")
    is_free = not isinstance(options, dict) or "whitespace_flexible" not in options
    return LLMatcher.grammar_from_json_schema(
        constraint.text, defaults={"whitespace_pattern": _WHITESPACE} if is_free else None
    )
