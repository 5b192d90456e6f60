"""The best tokens of rows of logits, chosen in numpy: what the native head does in its kernels."""

from __future__ import annotations

import numpy as np

from oneglance.engine.base import TopTokens
from oneglance.types import Float32Array


def top_tokens(logits: Float32Array, num_top: int) -> TopTokens:
    """The best tokens of each row in the order of `TopTokens`.

    Args:
        logits: [rows, V].
        num_top: how many of each row, 1 to V.
    """
    # Sorted ascending, NaN is last and so here, negated, after -(-inf): it is moved to the front.
    keys = np.where(np.isnan(logits), -np.inf, -logits)
    is_number = ~np.isnan(logits)
    ids = np.lexsort((keys, is_number), axis=-1)[:, :num_top].astype(np.int64)
    return TopTokens(ids, np.take_along_axis(logits, ids, axis=1))
