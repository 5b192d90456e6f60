"""A smaller model of the same vocabulary, or a part of the target, drafts for the target.

Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318. How its tokens are chosen is in
`choice.py`, which shape they take in `draft_tree.py`, where its keys and values live in
`draft_cache.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oneglance.config import EngineConfig
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest, RewindingDrafter
from oneglance.drafters.choice import (
    MIN_CONFIDENCE,
    NUM_COMPARED,
    Choice,
    best_siblings,
    check_min_confidence,
    fit,
    siblings,
    takes_argmax,
)
from oneglance.drafters.draft_cache import DraftCache, OwnCache
from oneglance.drafters.draft_tree import (
    BestFirst,
    ChainWithBranches,
    DraftTree,
    FixedShape,
    Growth,
    best_shape,
    chain_shape,
)
from oneglance.engine.base import Batch, Engine, PassLayers, SequenceId, TopTokens, TreeRows
from oneglance.engine.prefix import PrefixStore
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import KeyedNoise
from oneglance.types import ROOT, Float32Array, Proposal


@dataclass
class DraftModelSession:
    """One request as the draft model sees it: what was decided, and its cache."""

    context: DraftContext
    cache: DraftCache
    history: TokenHistory
    tokens: list[int]


@dataclass
class Draft:
    """A draft in the making.

    Attributes:
        session: of the request.
        growth: decides its shape.
        max_depth: of the tree.
        rows: tokens to evaluate or in flight: the decided ones that the cache lacked, the nodes
            that were grown on.
        parents: of the rows, as rows.
        num_evaluated: how many of the rows are in flight.
        frontier: nodes that grow on next; their rows are the last ones.
        row_of: the row of each node that was grown on.
        tree: what was drafted.
    """

    session: DraftModelSession
    growth: Growth
    max_depth: int
    rows: list[int]
    parents: list[int]
    num_evaluated: int = 0
    frontier: list[int] = field(default_factory=lambda: [ROOT])
    row_of: dict[int, int] = field(default_factory=dict)
    tree: DraftTree = field(default_factory=DraftTree)

    def tree_rows(self) -> TreeRows:
        """What the next pass evaluates; logits are wanted of the frontier."""
        count = len(self.rows)
        return TreeRows(
            sequence=self.session.cache.sequence,
            tokens=np.array(self.rows, dtype=np.int64),
            parents=np.array(self.parents, dtype=np.int64),
            wants_logits=np.arange(count) >= count - len(self.frontier),
            num_kept=self.num_evaluated,
        )

    def extend(self, families: Sequence[Sequence[Choice]], min_confidence: float) -> None:
        """Hangs children off the frontier and makes some of them the next one."""
        level: list[int] = []
        for node, choices in zip(self.frontier, families, strict=True):
            level += self.tree.add(node, choices)
        self.num_evaluated = len(self.rows)
        eos_ids = self.session.context.eos_ids
        alive = [
            node
            for node in level
            if self.tree.depths[node] < self.max_depth and self.tree.tokens[node] not in eos_ids
        ]
        self.frontier = self.growth.choose(self.tree, alive)
        if sum(self.tree.reaches[node] for node in self.frontier) < min_confidence:
            self.frontier = []
        for node in self.frontier:
            self.row_of[node] = len(self.rows)
            self.rows.append(self.tree.tokens[node])
            self.parents.append(self.row_of[self.tree.parents[node]])


class ModelDrafter(Drafter[DraftModelSession]):
    """Runs the draft model once for each level of a draft, for all requests of a pass together.

    A draft stops where its confidence falls: if, by the draft's own estimate, the nodes that it
    could grow on will be reached less often than `min_confidence`. Their tokens are kept, since to
    drop a token that was drawn because of its own probability would change the law of the answer.
    """

    def __init__(
        self,
        engine: Engine,
        vocab_size: int,
        name: str = "draft",
        engine_config: EngineConfig = EngineConfig(),
        layers: PassLayers = PassLayers(),
        min_confidence: float = MIN_CONFIDENCE,
    ) -> None:
        """Takes an engine for the draft model.

        Args:
            engine: holds the draft model; the drafter opens and closes sequences in it.
            vocab_size: width of the target's law. The draft's rows are cut or padded to it, so
                that both speak of the same tokens whatever the padding of their matrices.
            name: shown as the drafter of its tokens.
            engine_config: `prefill_chunk` and `num_kept_prefixes` are read.
            layers: which layers of the draft model every pass evaluates.
            min_confidence: 0 to 1; 0: drafts are as long as they may be.

        Raises:
            ParameterError: `min_confidence` is not 0 to 1.
        """
        check_min_confidence(min_confidence)
        self.name = name
        self._engine = engine
        self._vocab_size = vocab_size
        self._prefill_chunk = engine_config.prefill_chunk
        self._layers = layers
        count = engine.config.num_layers if layers.num_layers is None else layers.num_layers
        evaluated = engine.config.num_weights(count - len(layers.skipped_layers))
        self.own_bytes = engine.pass_bytes * evaluated / engine.config.num_weights()
        self._min_confidence = min_confidence
        self._prefixes = PrefixStore(engine, engine_config.num_kept_prefixes)

    def start(self, context: DraftContext) -> DraftModelSession:
        """Opens a sequence in the draft's cache; the prompt is fed with the first draft."""
        history = TokenHistory(context.prompt)
        return DraftModelSession(context, self._open(context), history, list(context.prompt))

    def propose(self, requests: Sequence[DraftRequest[DraftModelSession]]) -> list[Proposal]:
        """Drafts a chain, with branches where the request has use for them, or a tree per request.

        Shorter ones where the draft's own context ends, its confidence falls, or a text ends; none
        where its cache has no room.
        """
        drafts = self._with_room([self._begin(request) for request in requests])
        begun = [draft for draft in drafts if draft is not None]
        while active := [draft for draft in begun if draft.frontier]:
            self._grow(active)
        for draft in begun:
            draft.session.cache.end_draft(draft.rows, draft.parents)
        return [
            Proposal.empty(self.name)
            if draft is None
            else draft.tree.proposal(draft.growth.proposed(draft.tree), self.name)
            for draft in drafts
        ]

    def observe(self, session: DraftModelSession, tokens: Sequence[int]) -> None:
        """Keeps of the draft's cache what agrees with the decided tokens."""
        session.tokens.extend(tokens)
        for token in tokens:
            session.history.append(token)
        session.cache.settle(session.tokens)

    def close(self, session: DraftModelSession) -> None:
        """Ends a request; the draft's cache of it may serve the next one."""
        session.cache.close()

    def _open(self, context: DraftContext) -> DraftCache:
        """The cache of a new request; drafters that use the target in other ways override this."""
        return OwnCache(
            self._engine,
            self._prefixes,
            context.prompt,
            self._prefill_chunk,
            self._layers,
            context.hints.tenant,
        )

    def _begin(self, request: DraftRequest[DraftModelSession]) -> Draft | None:
        """None where nothing can be drafted."""
        session, num_nodes = request.session, request.num_tree_nodes
        # Nodes at the greatest depth are not fed, hence one position less than that is needed.
        room = self._engine.config.context_length - len(session.tokens) + 1
        depth = min(request.num_draft_tokens, room)
        if depth <= 0 or num_nodes == 0:
            return None
        pending = session.cache.catch_up(session.tokens)
        if not pending:
            return None
        last = len(pending) - 1
        growth = _growth(session.context, depth, num_nodes, request.num_branches)
        return Draft(session, growth, depth, pending, list(range(-1, last)), row_of={ROOT: last})

    def _with_room(self, drafts: list[Draft | None]) -> list[Draft | None]:
        """The drafts whose rows have room in the draft's cache, the first ones first.

        It is settled before anything is drafted: whether a draft is used must never depend on what
        it came to.
        """
        if self._engine.num_missing_pages(_most_rows(drafts)) == 0:
            return drafts
        left: list[Draft | None] = []
        for draft in drafts:
            has_room = self._engine.num_missing_pages(_most_rows([*left, draft])) == 0
            left.append(draft if has_room else None)
        return left

    def _grow(self, drafts: Sequence[Draft]) -> None:
        """Adds a level to drafts that have a frontier; drafters that add several override this."""
        for draft, families in zip(drafts, self._evaluate(drafts), strict=True):
            draft.extend(families, self._min_confidence)

    def _evaluate(self, drafts: Sequence[Draft]) -> list[list[list[Choice]]]:
        """Evaluates the new rows of each draft; the children of each node of its frontier."""
        trees = [draft.tree_rows() for draft in drafts]
        if not all(self._takes_argmax(draft) for draft in drafts):
            output = self._engine.forward(Batch.through(self._layers, trees))
            return [
                [self._siblings(draft, i, row) for i, row in enumerate(logits)]
                for draft, logits in zip(drafts, output.logits, strict=True)
            ]
        num_top = max(_widest(draft) for draft in drafts)
        known = min(self._vocab_size, self._engine.config.vocab_size)
        batch = Batch.through(self._layers, trees, max(num_top, NUM_COMPARED), known)
        output = self._engine.forward(batch)
        return [
            [self._best(draft, i, top) for i in range(len(draft.frontier))]
            for draft, top in zip(drafts, output.top, strict=True)
        ]

    def _takes_argmax(self, draft: Draft) -> bool:
        session = draft.session
        paths = [draft.tree.path(node) for node in draft.frontier]
        return all(takes_argmax(session.context, session.history, path) for path in paths)

    def _siblings(self, draft: Draft, index: int, row: Float32Array) -> list[Choice]:
        session, node = draft.session, draft.frontier[index]
        return siblings(
            fit(row, self._vocab_size),
            session.context,
            session.history,
            draft.tree.path(node),
            draft.growth.num_children(node),
        )

    def _best(self, draft: Draft, index: int, top: TopTokens) -> list[Choice]:
        choices = best_siblings(top, index, draft.growth.num_children(draft.frontier[index]))
        if choices is not None:
            return choices
        row = np.full(self._vocab_size, -np.inf, dtype=np.float32)
        row[top.ids[index, 0]] = top.logits[index, 0]
        return self._siblings(draft, index, row)


class DraftModelDrafter(ModelDrafter, RewindingDrafter[DraftModelSession]):
    """A model that needs no more than tokens, so that it can also draft for a draft model."""

    def rewind(self, session: DraftModelSession, num_tokens: int) -> None:
        """Forgets the last tokens, in the cache too."""
        del session.tokens[len(session.tokens) - num_tokens :]
        session.history.truncate(session.history.num_output - num_tokens)
        session.cache.settle(session.tokens)


def _widest(draft: Draft) -> int:
    return max(draft.growth.num_children(node) for node in draft.frontier)


def _most_rows(drafts: Sequence[Draft | None]) -> dict[SequenceId, int]:
    """The most rows that each may have in flight."""
    return {
        draft.session.cache.sequence: len(draft.rows) + draft.growth.most_grown(draft.max_depth)
        for draft in drafts
        if draft is not None
    }


def _growth(context: DraftContext, depth: int, num_nodes: int | None, num_branches: int) -> Growth:
    is_drawn = not (context.params.is_greedy or isinstance(context.noise, KeyedNoise))
    if num_nodes is None:
        if num_branches == 0 or is_drawn:
            return FixedShape(chain_shape(depth))
        return ChainWithBranches(depth + num_branches)
    if not is_drawn:
        return BestFirst(num_nodes)
    return FixedShape(best_shape(num_nodes, depth))
