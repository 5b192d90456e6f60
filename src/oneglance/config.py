"""Frozen configuration: what a model is, how a request is sampled, how an engine is sized."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import MappingProxyType
from typing import Literal, get_args

from oneglance.constraints import Constraint, TokenMask
from oneglance.errors import ParameterError
from oneglance.types import Float64Array

LogitsProcessor = Callable[[tuple[int, ...], Float64Array], Float64Array]
"""Maps (prompt and output ids so far, logits [V]) to new logits [V]; must be a pure function."""


@dataclass(frozen=True)
class RopeScaling:
    """Scaling of rotary frequencies.

    Attributes:
        kind: "linear" divides every frequency by `factor`; "llama3" divides the low ones,
            keeps the high ones and interpolates between (Llama 3.1 model card).
        factor: how many times longer the context became.
        low_freq_factor, high_freq_factor, original_context_length: of "llama3" only.
        frequency_divisors: [head_dim / 2] divisors stored in the file (GGUF `rope_freqs`); where
            present they replace the computation.
    """

    kind: Literal["linear", "llama3"]
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context_length: int = 8192
    frequency_divisors: tuple[float, ...] | None = None


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a decoder of the Llama family (Llama, SmolLM2, Mistral, Qwen2, Qwen3 dense).

    Every loader brings the weights into one form: rotary halves (element i is rotated with
    element i + head_dim / 2), matrices as [outputs, inputs].
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    context_length: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    has_qkv_bias: bool = False
    has_qk_norm: bool = False
    has_tied_head: bool = False

    def num_weights(self, num_layers: int | None = None) -> int:
        """Weights of the matrices that a pass of a row reads, without the embedding's.

        Args:
            num_layers: how many layers the pass evaluates; None: all.
        """
        heads = self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads)
        layer = self.hidden_size * (heads + 3 * self.intermediate_size)
        count = self.num_layers if num_layers is None else num_layers
        return count * layer + self.hidden_size * self.vocab_size

    @property
    def attention_share(self) -> float:
        """What a row costs for each token of its context, in units of a pass of one row; a guess.

        The multiplications of the scores over those of the matrices, which is about what was
        measured on two models (docs/performance.md).
        """
        return self.num_layers * self.num_heads * self.head_dim / self.num_weights()


@dataclass(frozen=True)
class SamplingParams:
    """What law the answer is drawn from, and when it ends. Defined in `sampling/warp.py`.

    Attributes:
        max_tokens: most tokens to deliver, at least 1; None: until the context is full.
        min_tokens: end-of-text tokens are forbidden, and stop strings ignored, before this many.
        temperature: 0 is greedy; otherwise logits are divided by it.
        top_k: keep the k most probable tokens; 0 keeps all.
        top_p: keep the smallest set whose probability reaches this; 1 keeps all.
        min_p: keep tokens with at least this share of the best one's probability; 0 keeps all.
        repetition_penalty: logits of tokens in prompt or output are divided by it if positive,
            multiplied by it if negative; 1 is off (CTRL, arXiv:1909.05858).
        presence_penalty: subtracted once from the logit of each token in the output.
        frequency_penalty: subtracted for each occurrence in the output.
        logit_bias: token id to value added to its logit; −100 or less does not forbid for
            certain, `banned_tokens` does.
        banned_tokens: ids that can never be drawn.
        stop: strings that end the answer; the answer does not contain them.
        ignore_eos: end-of-text tokens are ordinary tokens.
        seed: non-negative; the same seed gives the same tokens with any drafter (contract C3).
            None: fresh randomness.
        choice: which of several answers to the same seed this is.
        top_logprobs: how many alternatives to report with each delivered token.
        logits_processors: user functions applied at every position, before the temperature.
        constraint: which texts the answer may be; a `TokenMask` is one that is bound to a
            vocabulary already, or your own. Where the answer may end is
            up to it, so that `min_tokens` and `ignore_eos` are refused beside it.
    """

    max_tokens: int | None = 256
    min_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    banned_tokens: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    seed: int | None = None
    choice: int = 0
    top_logprobs: int = 0
    logits_processors: tuple[LogitsProcessor, ...] = ()
    constraint: Constraint | TokenMask | None = None

    def __post_init__(self) -> None:
        """Refuses values that have no meaning.

        Raises:
            ParameterError: names the parameter, its value and the range that is allowed.
        """
        _check_types(self)
        if self.max_tokens is not None:
            _require("max_tokens", self.max_tokens, self.max_tokens >= 1, "at least 1")
        _require("min_tokens", self.min_tokens, self.min_tokens >= 0, "at least 0")
        if self.max_tokens is not None:
            in_reach = self.min_tokens <= self.max_tokens
            _require(
                "min_tokens", self.min_tokens, in_reach, f"max_tokens = {self.max_tokens} at most"
            )
        _require("temperature", self.temperature, 0 <= self.temperature < math.inf, "0 or more")
        _require("top_k", self.top_k, self.top_k >= 0, "0 (off) or more")
        _require("top_p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1")
        _require("min_p", self.min_p, 0 <= self.min_p <= 1, "between 0 and 1")
        positive = 0 < self.repetition_penalty < math.inf
        _require("repetition_penalty", self.repetition_penalty, positive, "above 0; 1 is off")
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            _require(name, value, math.isfinite(value), "a finite number")
        for token, bias in self.logit_bias.items():
            _require(f"logit_bias[{token}]", bias, math.isfinite(bias), "a finite number")
        _require("stop", self.stop, "" not in self.stop, "free of empty strings")
        if self.seed is not None:
            _require("seed", self.seed, 0 <= self.seed < 2**64, "between 0 and 2^64 - 1")
        _require("choice", self.choice, 0 <= self.choice < 2**32, "between 0 and 2^32 - 1")
        _require("top_logprobs", self.top_logprobs, self.top_logprobs >= 0, "at least 0")
        if self.constraint is not None:
            by_itself = "with a constraint, which says where the answer may end"
            _require("min_tokens", self.min_tokens, not self.min_tokens, f"0 {by_itself}")
            _require("ignore_eos", self.ignore_eos, not self.ignore_eos, f"False {by_itself}")

    @property
    def is_greedy(self) -> bool:
        """True if each token is the argmax (temperature 0)."""
        return self.temperature == 0

    @property
    def moves_logits(self) -> bool:
        """True if more than `constraint` and `min_tokens` acts on logits before the temperature."""
        is_moved = self.logit_bias or self.banned_tokens or self.logits_processors
        has_penalty = self.presence_penalty or self.frequency_penalty
        return bool(is_moved or has_penalty) or self.repetition_penalty != 1

    @property
    def keeps_logits(self) -> bool:
        """True if nothing moves the model's logits before the temperature, but for `min_tokens`."""
        return self.constraint is None and not self.moves_logits

    def check_vocabulary(self, vocab_size: int) -> None:
        """Refuses token ids that the model does not have.

        Raises:
            ParameterError: names the first such id.
        """
        for name, ids in (("logit_bias", self.logit_bias), ("banned_tokens", self.banned_tokens)):
            for token in ids:
                inside = 0 <= token < vocab_size
                _require(name, token, inside, f"a token id below {vocab_size}, the vocabulary size")


MAX_THREADS = 256
"""Most threads that an engine can be given."""

EngineKind = Literal["auto", "native", "reference"]
WeightsForm = Literal["auto", "bf16", "f32"]


@dataclass(frozen=True)
class EngineConfig:
    """Which engine, and how it is sized.

    Attributes:
        page_size: positions per page of the key-value cache.
        num_pages: pages in the target's cache, shared by all sequences; None: it grows as needed,
            as those of draft models do.
        prefill_chunk: most prompt tokens that one pass evaluates.
        kept_prefixes: ended answers whose cache is kept, so that a prompt that begins alike (the
            next turn of a chat) need not be fed again.
        kind: "native" is compiled and fast, "reference" float32 numpy, slow and obvious; "auto"
            is native wherever that can run the model, else reference with a warning.
        num_threads: threads of a pass of the native engine; they change no bit. None: as many as
            this process has CPUs. The reference engine has one.
        kv_dtype: type of the native engine's cache, "f16" or "f32"; in-flight rows are rounded to
            it too. The reference engine's is float32.
        weights: what becomes of matrices that the file has as F32, F16 or BF16. "bf16" rounds them
            to bfloat16, "f32" keeps them exactly, and their products take float32 activations;
            "auto" is what the engine is made for: the native one quantises them to 8 bits in
            groups of 32, the reference engine has them as float32. Quantised matrices keep the
            file's bits in any case.
    """

    page_size: int = 64
    num_pages: int | None = None
    prefill_chunk: int = 64
    kept_prefixes: int = 4
    kind: EngineKind = "auto"
    num_threads: int | None = None
    kv_dtype: Literal["f16", "f32"] = "f16"
    weights: WeightsForm = "auto"

    @property
    def num_kept_prefixes(self) -> int:
        """`kept_prefixes`, or none in a cache of limited size: that is for answers in progress."""
        return self.kept_prefixes if self.num_pages is None else 0

    def __post_init__(self) -> None:
        """Refuses values that have no meaning.

        Raises:
            ParameterError: names the parameter, its value and the range that is allowed.
        """
        _require("page_size", self.page_size, self.page_size >= 1, "at least 1")
        if self.num_pages is not None:
            _require("num_pages", self.num_pages, self.num_pages >= 1, "at least 1")
        _require("prefill_chunk", self.prefill_chunk, self.prefill_chunk >= 1, "at least 1")
        _require("kept_prefixes", self.kept_prefixes, self.kept_prefixes >= 0, "at least 0")
        _require("kind", self.kind, self.kind in get_args(EngineKind), "auto, native or reference")
        _require("kv_dtype", self.kv_dtype, self.kv_dtype in ("f16", "f32"), "f16 or f32")
        is_form = self.weights in get_args(WeightsForm)
        _require("weights", self.weights, is_form, "auto, bf16 or f32")
        if self.num_threads is not None:
            is_possible = _is_whole(self.num_threads) and 1 <= self.num_threads <= MAX_THREADS
            _require("num_threads", self.num_threads, is_possible, f"1 to {MAX_THREADS}")
        if self.kind == "reference":
            is_honoured = self.num_threads in (None, 1)
            _require("num_threads", self.num_threads, is_honoured, "1 on the reference engine")


def _check_types(params: SamplingParams) -> None:
    """Refuses values of the wrong type, before any of them is compared with a range."""
    whole = ("min_tokens", "top_k", "choice", "top_logprobs")
    optional = [name for name in ("max_tokens", "seed") if getattr(params, name) is not None]
    for name in (*whole, *optional):
        value = getattr(params, name)
        _require(name, value, _is_whole(value), "a whole number")
    real = ("temperature", "top_p", "min_p", "repetition_penalty")
    for name in (*real, "presence_penalty", "frequency_penalty"):
        value = getattr(params, name)
        _require(name, value, _is_real(value), "a number")
    is_list = isinstance(params.stop, Sequence) and not isinstance(params.stop, str)
    is_texts = is_list and all(isinstance(stop, str) for stop in params.stop)
    _require("stop", params.stop, is_texts, 'a list of strings, such as ["."]')
    for token in params.banned_tokens:
        _require("banned_tokens", token, _is_whole(token), "a list of token ids")
    for token, bias in params.logit_bias.items():
        is_pair = _is_whole(token) and _is_real(bias)
        _require(f"logit_bias[{token!r}]", bias, is_pair, "a token id with a number")
    is_constraint = isinstance(params.constraint, Constraint | TokenMask | None)
    _require("constraint", params.constraint, is_constraint, "a Constraint or a TokenMask")


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _require(name: str, value: object, is_valid: bool, allowed: str) -> None:
    if not is_valid:
        raise ParameterError(f"{name} = {value!r} cannot be used; it must be {allowed}.")
