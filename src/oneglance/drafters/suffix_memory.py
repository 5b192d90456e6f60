"""Past answers that the suffix drafter learns from: bounded, and each tenant's for itself."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oneglance import _native
from oneglance.drafters.suffix_file import VocabularyStamp
from oneglance.errors import ParameterError

Answer = NDArray[np.int32]


@dataclass(frozen=True)
class MemoryLimits:
    """How much is remembered.

    Attributes:
        max_answers: of a tenant; the oldest goes first.
        max_tokens: of a tenant's answers together; of a longer answer the end is kept. Each token
            takes about 150 bytes, at most 300.
        max_tenants: the one that has not been served for longest goes first, with all its answers.
    """

    max_answers: int = 1_000
    max_tokens: int = 100_000
    max_tenants: int = 16

    def __post_init__(self) -> None:
        """Refuses what cannot be honoured.

        Raises:
            ParameterError: a limit is below 1.
        """
        for name, value in vars(self).items():
            if value < 1:
                raise ParameterError(f"{name} = {value} cannot be used; it must be at least 1.")


@dataclass
class _Tenant:
    tree: _native.SuffixTree
    answers: deque[tuple[int, Answer]] = field(default_factory=deque)
    """Sequences of the tree and their tokens, the oldest first."""

    def add(self, answer: Answer) -> None:
        sequence = self.tree.start()
        self.tree.append(sequence, answer.tolist())
        self.answers.append((sequence, answer))

    def drop_oldest(self) -> None:
        sequence, _ = self.answers.popleft()
        self.tree.remove(sequence)


class SuffixMemory:
    """A suffix tree of past answers for each tenant."""

    def __init__(
        self,
        vocabulary: VocabularyStamp,
        limits: MemoryLimits = MemoryLimits(),
        max_depth: int = 64,
    ) -> None:
        """Begins empty.

        Args:
            vocabulary: whose tokens the answers are made of; files say so too.
            limits: how much is remembered.
            max_depth: of the trees, see `SuffixLimits`.
        """
        self.vocabulary = vocabulary
        self._limits = limits
        self._max_depth = max_depth
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()

    def draft(
        self, tenant: str, text: Sequence[int], limits: _native.DraftLimits
    ) -> _native.SuffixDraft | None:
        """What came after the end of `text` in this tenant's answers; None if it has none."""
        if tenant not in self._tenants:
            return None
        self._tenants.move_to_end(tenant)
        return self._tenants[tenant].tree.draft_of(text, limits)

    def add(self, tenant: str, tokens: Sequence[int] | Answer) -> None:
        """Remembers an answer, and forgets what no longer fits."""
        answer = np.array(tokens[-self._limits.max_tokens :], dtype=np.int32)
        if len(answer) == 0:
            return
        if tenant not in self._tenants:
            self._tenants[tenant] = _Tenant(_native.SuffixTree(self._max_depth))
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > self._limits.max_tenants:
            self._tenants.popitem(last=False)
        those = self._tenants[tenant]
        while those.answers and (
            len(those.answers) >= self._limits.max_answers
            or those.tree.num_tokens + len(answer) > self._limits.max_tokens
        ):
            those.drop_oldest()
        those.add(answer)

    def answers(self) -> Mapping[str, list[Answer]]:
        """All answers by tenant; the tenant served last and its latest answer come last."""
        return {
            name: [answer for _, answer in tenant.answers] for name, tenant in self._tenants.items()
        }

    def clear(self) -> None:
        """Forgets everything."""
        self._tenants.clear()
