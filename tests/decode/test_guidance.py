"""What a constraint leaves out of a draft, and what it adds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from oneglance.constraints import TokenMask
from oneglance.decode.guidance import MAX_CERTAIN, Guide
from oneglance.errors import DeadEndError
from oneglance.types import ROOT, BoolArray, Proposal

V = 7
END, DEAD = 5, 6
ANY = tuple(range(V))


class Listed(TokenMask):
    """Tokens that may follow some outputs; after all others any may."""

    def __init__(self, rules: Mapping[tuple[int, ...], tuple[int, ...]]) -> None:
        self.rules = rules

    def allowed(self, output: tuple[int, ...]) -> BoolArray | None:
        if len(output) > 6 or output[-1:] == (DEAD,):
            raise DeadEndError("too far")
        if any(output[i] not in self.rules.get(output[:i], ANY) for i in range(len(output))):
            return None
        return np.isin(np.arange(V), self.rules.get(output, ANY))


def chain(*tokens: int, has_laws: bool = False, expected: float | None = None) -> Proposal:
    laws = [np.full(V, 1 / V) for _ in tokens] if has_laws else None
    return Proposal.chain(tokens, laws, "drafter", expected)


def tree(tokens: list[int], parents: list[int], has_laws: bool = False) -> Proposal:
    law = np.full(V, 1 / V)
    laws = tuple(law for _ in tokens) if has_laws else None
    return Proposal(np.array(tokens), np.array(parents), laws, drafter="drafter")


def guide(rules: Mapping[tuple[int, ...], tuple[int, ...]], cuts: bool = True) -> Guide:
    return Guide(Listed(rules), frozenset({END}), V, cuts)


def shape(proposal: Proposal) -> tuple[list[int], list[int]]:
    return proposal.tokens.tolist(), proposal.parents.tolist()


def test_a_chain_ends_before_the_first_forbidden_token() -> None:
    found = guide({(1, 0): (2, 3)}).apply(chain(0, 1, 2, expected=2.5), (1,), room=8)
    assert shape(found.proposal) == ([0], [ROOT])
    assert found.proposal.expected == 1
    assert (found.num_drafted, found.is_whole) == (1, False)


def test_what_is_allowed_stays_as_it_is() -> None:
    draft = chain(0, 1, 2, expected=2.5)
    found = guide({(): (0, 1), (0,): (1, 2)}).apply(draft, (), room=8)
    assert found.proposal is draft
    assert (found.num_drafted, found.is_whole) == (3, True)


def test_a_tree_loses_forbidden_branches() -> None:
    draft = tree([0, 1, 2, 3, 2], [ROOT, ROOT, 0, 1, 2])
    found = guide({(): (0, 2)}).apply(draft, (), room=8)
    assert shape(found.proposal) == ([0, 2, 2], [ROOT, 0, 1])
    assert found.proposal.expected is None


def test_nothing_hangs_off_an_end_of_text() -> None:
    found = guide({}).apply(chain(0, END, 1), (), room=8)
    assert shape(found.proposal) == ([0, END], [ROOT, 0])


@pytest.mark.parametrize("has_laws", [False, True])
def test_nothing_hangs_off_a_dead_end(has_laws: bool) -> None:
    found = guide({}).apply(chain(0, DEAD, 1, 3, has_laws=has_laws), (), room=8)
    assert shape(found.proposal) == ([0, DEAD], [ROOT, 0])


def test_a_drawn_token_stays_though_it_is_forbidden_and_what_follows_it_goes() -> None:
    draft = chain(0, 1, 2, has_laws=True)
    found = guide({(): (3, 4)}).apply(draft, (), room=8)
    assert shape(found.proposal) == ([0], [ROOT])
    assert found.proposal.draft_probs is not None
    assert found.proposal.draft_probs[0] is draft.draft_probs[0]  # type: ignore[index]
    branches = tree([0, 1, 2, 3], [ROOT, ROOT, 0, 1], has_laws=True)
    found = guide({(): (1,)}).apply(branches, (), room=8)
    assert shape(found.proposal) == ([0, 1, 3], [ROOT, ROOT, 1])


def test_certain_tokens_follow_the_draft() -> None:
    rules = {(0,): (4,), (0, 4): (3,), (0, 4, 3): (1, 2)}
    found = guide(rules).apply(chain(0), (), room=8)
    assert shape(found.proposal) == ([0, 4, 3], [ROOT, 0, 1])
    assert (found.num_drafted, found.num_certain, found.is_whole) == (1, 2, True)
    assert found.proposal.drafter == "drafter"


@pytest.mark.parametrize("draft", [chain(), chain(0), chain(has_laws=True)])
def test_certain_tokens_take_the_place_of_a_wrong_draft(draft: Proposal) -> None:
    found = guide({(): (4,), (4,): (3,), (4, 3): (END,)}).apply(draft, (), room=8)
    assert shape(found.proposal) == ([4, 3], [ROOT, 0]), "the end needs no row"
    assert found.proposal.drafter == "grammar"
    assert found.proposal.draft_probs is None
    assert (found.num_drafted, found.is_whole) == (0, len(draft) == 0)


def test_behind_drawn_tokens_what_is_certain_has_a_law_too() -> None:
    found = guide({(0,): (4,)}).apply(chain(0, has_laws=True), (), room=8)
    assert shape(found.proposal) == ([0, 4], [ROOT, 0])
    assert found.proposal.draft_probs is not None
    assert found.proposal.draft_probs[1].tolist() == np.eye(V)[4].tolist()


def test_nothing_is_certain_behind_a_forbidden_token() -> None:
    found = guide({(): (3,), (0,): (4,)}).apply(chain(0, has_laws=True), (), room=8)
    assert shape(found.proposal) == ([0], [ROOT])


def test_certain_tokens_are_grafted_onto_a_tree() -> None:
    rules = {(): (4,), (4,): (3,), (4, 3): (1,), (4, 3, 1): (0, 2)}
    draft = tree([4, 0, 1], [ROOT, 0, 0])
    found = guide(rules, cuts=False).apply(draft, (), room=8)
    assert shape(found.proposal) == ([4, 0, 1, 3, 1], [ROOT, 0, 0, 0, 3])
    assert (found.num_drafted, found.num_certain, found.is_whole) == (3, 2, True)
    complete = tree([4, 3, 1, 0, 2], [ROOT, 0, 1, 2, 2])
    assert guide(rules, cuts=False).apply(complete, (), room=8).proposal is complete


def test_drawn_siblings_get_none_that_was_not_drawn() -> None:
    draft = tree([0, 1], [ROOT, ROOT], has_laws=True)
    assert guide({(): (4,)}).apply(draft, (), room=8).proposal is draft
    draft = tree([0, 1], [ROOT, ROOT], has_laws=True)
    found = guide({(): (4,), (4,): (3,)}, cuts=False).apply(draft, (), room=8)
    assert found.proposal is draft


def test_there_is_room_for_so_many() -> None:
    endless = {(0,) * size: (0,) for size in range(7)}
    assert len(guide(endless).apply(chain(), (), room=3).proposal) == 3
    assert len(guide(endless).apply(chain(0), (), room=3).proposal) == 3
    assert len(guide(endless).apply(chain(), (), room=0).proposal) == 0
    far = guide(endless).apply(chain(), (), room=99).proposal
    assert len(far) == 7, "as far as the constraint can be followed"
    assert len(far) < MAX_CERTAIN


def test_a_token_beyond_the_vocabulary_is_left_to_the_rule() -> None:
    draft = chain(0, V)
    found = guide({}).apply(draft, (), room=8)
    assert shape(found.proposal) == ([0], [ROOT])
