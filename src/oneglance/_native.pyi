"""Compiled kernels of the native engine."""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


def available_isas() -> list[str]:
    """Instruction sets that this build has and this CPU runs, best first."""

class Runtime:
    """The kernels of one instruction set and a pool of threads."""

    def __init__(self, isa: str, num_threads: int) -> None: ...

    @property
    def isa(self) -> str: ...

    @property
    def num_threads(self) -> int: ...

def probe_pool(runtime: Runtime, num_rounds: int, failing_thread: int = -1) -> list[int]:
    """Rounds in which each thread met all others at a barrier; for tests."""

class PackedMatrix:
    """Weights [outputs, inputs] as the kernels read them."""

    @property
    def outputs(self) -> int: ...

    @property
    def inputs(self) -> int: ...

    @property
    def num_tiles(self) -> int: ...

    @property
    def num_bytes(self) -> int: ...

    @property
    def activation_planes(self) -> int:
        """In how many planes of 8 bits products take activations; 0: as float32."""

    @property
    def form(self) -> str: ...

class QuantizedRows:
    """
    Activations in planes of 8 bits with a scale per 32 inputs; the planes of a row follow each other.
    """

    @property
    def planes(self) -> int: ...

    @property
    def values(self) -> Annotated[NDArray[numpy.int8], dict(shape=(None, None))]: ...

    @property
    def scales(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def sums(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None))]: ...

def why_unpackable(quantization: str, inputs: int) -> str:
    """Why a matrix of this type and width cannot be packed; empty if it can."""

def pack(data: Annotated[NDArray[numpy.uint8], dict(order='C', device='cpu', writable=False)], quantization: str, outputs: int, inputs: int, num_threads: int, weights: str = 'auto', activation_planes: int = 1) -> PackedMatrix:
    """
    Packs a matrix from its bytes in the file; `weights` says what becomes of floats: 8-bit groups (auto), bf16 or f32. Products with 8-bit weights that have one scale can take activations in 2 planes of 8 bits. ValueError if that is impossible.
    """

def unpack(runtime: Runtime, matrix: PackedMatrix) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]:
    """The weights as float32 [outputs, inputs]."""

def quantize_rows(runtime: Runtime, x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], planes: int = 1) -> QuantizedRows:
    """Activations [R, inputs] in planes of 8 bits."""

def matmul(runtime: Runtime, matrix: PackedMatrix, x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]:
    """
    x [R, inputs], quantised where the weights are integers, times the matrix: float32 [R, outputs].
    """

def matmul_tiles(runtime: Runtime, matrix: PackedMatrix, x: QuantizedRows, y: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], tile_begin: int, tile_end: int) -> None:
    """
    Writes the outputs of some tiles into y [R, outputs], on the calling thread.
    """

def embed(runtime: Runtime, matrix: PackedMatrix, tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]:
    """Dequantised rows of a matrix: float32 [R, inputs]."""

def time_sweep(runtime: Runtime, matrices: Sequence[PackedMatrix], x: QuantizedRows) -> float:
    """Seconds of one sweep of products over all matrices."""

def time_read(runtime: Runtime, data: Annotated[NDArray[numpy.uint8], dict(order='C', device='cpu', writable=False)]) -> float:
    """Seconds to read an array once."""

class KvCache:
    """The pages of keys and values of all layers."""

    def __init__(self, num_layers: int, num_kv_heads: int, head_dim: int, page_size: int, is_half: bool) -> None: ...

    def grow(self, num_pages: int) -> None:
        """Makes pages until there are at least so many."""

    def copy_page(self, source: int, target: int) -> None:
        """Copies all slots of a page, in all layers."""

    def gather(self, pages: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], from_slots: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], to_slots: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)]) -> None:
        """
        Moves slots of one sequence, in all layers; all are read before any is written.
        """

    def read(self, layer: int, page: int) -> tuple[NDArray[numpy.float32], NDArray[numpy.float32]]:
        """
        Keys and values of a page, [kv_heads, page_size, head_dim] float32 each; for tests.
        """

    @property
    def num_pages(self) -> int: ...

    @property
    def page_bytes(self) -> int: ...

class Pass:
    """Rows of trees that hang off the prefixes of sequences."""

    def __init__(self, page_size: int, positions: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], first_rows: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], row_counts: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], prefix_lengths: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], kept_counts: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], page_starts: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], pages: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], ancestor_starts: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], ancestors: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)]) -> None: ...

    @property
    def num_rows(self) -> int: ...

class Workspace:
    """Buffers that passes share, with what they run on."""

    def __init__(self, runtime: Runtime, cos: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], sin: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]) -> None:
        """cos and sin are [context, head_dim / 2]."""

class Layer:
    """One decoder layer; qkv_bias is that of q, k and v in a row."""

    def __init__(self, *, index: int, head_dim: int, eps: float, input_norm: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)] | None, q_proj: PackedMatrix, k_proj: PackedMatrix, v_proj: PackedMatrix, o_proj: PackedMatrix, post_attention_norm: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], gate_proj: PackedMatrix, up_proj: PackedMatrix, down_proj: PackedMatrix, qkv_bias: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)] | None = None, q_norm: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)] | None = None, k_norm: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)] | None = None) -> None: ...

class Head:
    """The final norm and the output matrix."""

    def __init__(self, *, norm: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)] | None, matrix: PackedMatrix, eps: float) -> None: ...

def attention_block(layer: Layer, pass_: Pass, cache: KvCache, workspace: Workspace, stream: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')], inputs: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)] | None = None) -> None:
    """
    Adds o_proj(attention(norm(stream))) to the stream [rows, hidden], in place, and writes the rows' keys and values to the cache. A layer without an input norm makes queries, keys and values of `inputs` instead.
    """

def mlp_block(layer: Layer, workspace: Workspace, stream: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')]) -> None:
    """
    Adds down(silu(gate(norm(stream))) * up(norm(stream))) to the stream, in place.
    """

def head(head: Head, workspace: Workspace, stream: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], logits: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')]) -> None:
    """
    Writes the logits [len(rows), vocabulary] of the wanted rows of the stream.
    """

def head_summarized(head: Head, workspace: Workspace, stream: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], logits: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')], num_ids: int, best: Annotated[NDArray[numpy.int64], dict(order='C', device='cpu')], log_normalizers: Annotated[NDArray[numpy.float64], dict(order='C', device='cpu')]) -> None:
    """
    The same and, of the first num_ids logits of each row, the argmax and the log of the sum of exponentials, [len(rows)] each, as `Rows` defines them.
    """

def head_top(head: Head, workspace: Workspace, stream: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], num_ids: int, ids: Annotated[NDArray[numpy.int64], dict(order='C', device='cpu')], logits: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')]) -> None:
    """
    Writes the best of the first num_ids tokens, best first, and their logits, [len(rows), number wanted] each; equal ones by id, NaN before every number.
    """

def rms_norm(runtime: Runtime, x: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], eps: float) -> NDArray[numpy.float32]:
    """Norm of the rows of x [R, D]."""

def rope(runtime: Runtime, heads: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], positions: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], cos: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], sin: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]) -> NDArray[numpy.float32]:
    """Rotated copy of heads [R, heads, head_dim]; for tests."""

def swiglu(runtime: Runtime, gate: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], up: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]) -> NDArray[numpy.float32]:
    """silu(gate) * up, [R, F] each; for tests."""

def exp(x: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]) -> NDArray[numpy.float32]:
    """The kernels' exponential function of x [N]; for tests."""

def store_kv(runtime: Runtime, pass_: Pass, cache: KvCache, layer: int, keys: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]) -> None:
    """
    Writes keys and values [R, kv_heads, head_dim] of a pass to the cache; for tests.
    """

def attend(pass_: Pass, cache: KvCache, layer: int, workspace: Workspace, queries: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]) -> NDArray[numpy.float32]:
    """
    Attention alone, [R, heads, head_dim] to the same shape; for tests, benchmarks.
    """

class ChainHead:
    """What an EAGLE-3 head is made of, to draft chains."""

    def __init__(self, *, embedding: PackedMatrix, fc: PackedMatrix, fc_bias: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)] | None, eps: float, embedding_norm: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], feature_norm: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], norm_before_residual: bool, layers: tuple, head: Head, target_ids: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)]) -> None: ...

    @property
    def num_ids(self) -> int: ...

def grow_chains(head: ChainHead, row_starts: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], tokens: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], positions: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], most: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], page_starts: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], pages: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], features: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], cache: KvCache, workspace: Workspace, min_confidence: float, end_ids: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], noises: tuple, ids: Annotated[NDArray[numpy.int64], dict(order='C', device='cpu')], logits: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')], drawn_ids: Annotated[NDArray[numpy.int64], dict(order='C', device='cpu')], drawn_logits: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')]) -> list[int]:
    """
    Drafts chains behind rows whose features are known; returns how many tokens each got. The best tokens of each place and their logits go to ids and logits [chains, places, number wanted]. Each chain has a noise (temperature, seed, choice, position of its first token): above temperature 0 its tokens are the best ones with that noise, and they go, with their logits, to drawn_ids and drawn_logits.
    """

class Rows:
    """
    Operations on rows over the vocabulary, defined in sampling/row_kernels.py.
    """

    def __init__(self, isa: str) -> None: ...

    @property
    def isa(self) -> str: ...

    def argmax(self, row: Annotated[NDArray, dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int: ...

    def log_normalizer(self, row: Annotated[NDArray, dict(shape=(None,), order='C', device='cpu', writable=False)]) -> float: ...

    def ranked(self, row: Annotated[NDArray, dict(shape=(None,), order='C', device='cpu', writable=False)], count: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def at_least(self, row: Annotated[NDArray, dict(shape=(None,), order='C', device='cpu', writable=False)], best: float, temperature: float, floor: float) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def nucleus(self, row: Annotated[NDArray, dict(shape=(None,), order='C', device='cpu', writable=False)], best: float, temperature: float, share: float) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def draw(self, row: Annotated[NDArray, dict(shape=(None,), order='C', device='cpu', writable=False)], best: float, temperature: float, uniform: float) -> int: ...

    def best_with_noise(self, row: Annotated[NDArray, dict(shape=(None,), order='C', device='cpu', writable=False)], best: float, temperature: float, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, seed: int, choice: int, position: int, count: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def gumbel(self, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, choice: int, position: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def exp(self, x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def sum(self, x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> float: ...

    def log(self, x: float) -> float: ...

class DraftLimits:
    """How much a suffix tree may draft."""

    def __init__(self, max_tokens: int, max_nodes: int = -1, factor: float = 1.0, offset: float = 0.0, min_prob: float = 0.1, ends: Sequence[int] = []) -> None: ...

class SuffixDraft:
    """What a suffix tree says will come next."""

    @property
    def tokens(self) -> list[int]: ...

    @property
    def parents(self) -> list[int]: ...

    @property
    def probs(self) -> list[float]: ...

    @property
    def score(self) -> float: ...

    @property
    def match_length(self) -> int: ...

class SuffixTree:
    """A counted suffix tree over sequences of token ids."""

    def __init__(self, max_depth: int = 64) -> None: ...

    @property
    def max_depth(self) -> int: ...

    @property
    def num_tokens(self) -> int: ...

    @property
    def num_nodes(self) -> int: ...

    @property
    def num_bytes(self) -> int: ...

    def start(self) -> int:
        """Begins a sequence; returns its number."""

    def append(self, sequence: int, tokens: Sequence[int]) -> None:
        """Adds tokens at the end of a sequence."""

    def remove(self, sequence: int) -> None:
        """Takes a sequence out again; cheapest in the order in which they began."""

    def count(self, tokens: Sequence[int]) -> int:
        """How often these tokens occurred, one after another."""

    def draft_after(self, sequence: int, limits: DraftLimits) -> SuffixDraft:
        """What may come after a sequence."""

    def draft_of(self, text: Sequence[int], limits: DraftLimits) -> SuffixDraft:
        """What may come after a text that is not in the tree."""
