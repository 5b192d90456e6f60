"""A draft model of another vocabulary: exact for any pair, refused where no text can pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.small_vocabularies import LongestMatch

from oneglance.drafters.base import Drafter
from oneglance.drafters.other_vocabulary import OtherVocabularyDrafter
from oneglance.drafters.other_vocabulary_pair import VocabularyPair
from oneglance.drafters.string_level import StringLevelDrafter
from oneglance.drafters.token_level import TokenLevelDrafter
from oneglance.testing import ScriptedEngine, check_drafter, random_script

TARGET = LongestMatch([b"a", b"b", b"c"])
DRAFTS = {
    "permuted": LongestMatch([b"c", b"a", b"b"]),
    "longer": LongestMatch([b"ab", b"c", b"a", b"b", b"ca"]),
    "with-controls": LongestMatch(["<end>", b"bb", b"b", b"a", b"c"], ends=["<end>"]),
    "with-start": LongestMatch(["<s>", b"b", b"a", b"c", b"cc"], bos="<s>"),
}
METHODS: list[Callable[..., Drafter[Any]]] = [
    StringLevelDrafter,
    TokenLevelDrafter,
    OtherVocabularyDrafter,
]


@pytest.mark.parametrize("tree_nodes", [None, 1, 3])
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("method", METHODS)
def test_every_pair_of_vocabularies_is_exact(
    method: Callable[..., Drafter[Any]], draft: str, tree_nodes: int | None
) -> None:
    tokenizer = DRAFTS[draft]
    size = tokenizer.vocab_size

    def make() -> Drafter[Any]:
        engine = ScriptedEngine(random_script(size, seed=5), size)
        return method(engine, VocabularyPair(TARGET, tokenizer))

    check_drafter(make, tree_nodes=tree_nodes)
