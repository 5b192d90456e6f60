"""How byte-level tokenizers cut text into words before merging, by the name GGUF gives the rule.

The patterns are those that the models were trained with; the names are llama.cpp's. Where
llama.cpp gives several names to one rule, all are known here.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = rf"{_WORDS}|\p{{N}}{{1,3}}|{_REST}"
QWEN2_PATTERN = rf"{_WORDS}|\p{{N}}|{_REST}"


@dataclass(frozen=True)
class SplitRule:
    """How to cut text into words.

    Attributes:
        patterns: applied one after the other to what the earlier ones left whole; each match
            becomes a word, and so does each stretch between matches.
        ignores_merges: a word that is a token becomes that token, whatever its merges say.
        adds_bos: whether a raw prompt begins with the beginning-of-text token, unless the file
            says otherwise.
    """

    patterns: tuple[str, ...]
    ignores_merges: bool = False
    adds_bos: bool = False


SINGLE_DIGITS = SplitRule((r"\p{N}", GPT2_PATTERN))
GPT2 = SplitRule((GPT2_PATTERN,))
LLAMA3 = SplitRule((LLAMA3_PATTERN,), ignores_merges=True, adds_bos=True)
QWEN2 = SplitRule((QWEN2_PATTERN,))
DEFAULT = SplitRule((r"[\p{P}\$\+<=>\^~\|]+", GPT2_PATTERN, r"\p{N}+", r"[0-9][0-9][0-9]"))

SPLIT_RULES = {
    "smollm": SINGLE_DIGITS,
    "starcoder": SINGLE_DIGITS,
    "gpt-2": GPT2,
    "llama-bpe": LLAMA3,
    "llama3": LLAMA3,
    "llama-v3": LLAMA3,
    "qwen2": QWEN2,
    "deepseek-r1-qwen": QWEN2,
    "default": DEFAULT,
}


def build_pre_tokenizer(rule: SplitRule) -> PreTokenizer:
    """The rule as a pre-tokenizer that ends in the byte-level alphabet."""
    steps: list[PreTokenizer] = [
        Split(Regex(pattern), behavior="isolated") for pattern in rule.patterns
    ]
    return Sequence([*steps, ByteLevel(add_prefix_space=False, use_regex=False)])
