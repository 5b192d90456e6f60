"""Fields that both APIs share. Ranges are OpenAI's; fields marked so are extensions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

INT64 = 2**63
"""Seeds are 64-bit numbers with a sign."""

Bias = Annotated[float, Field(ge=-100, le=100)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Count = Annotated[int, Field(ge=1)]


class Body(BaseModel):
    """Takes what it declares, of the declared type, and nothing else."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )


class StreamOptions(Body):
    """What a stream carries besides the answer."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class Speculation(Body):
    """Extension: how this request is drafted for. It changes when tokens come, never which."""

    off: bool = False
    """Decode plainly; goes with none of the following three."""
    drafter: str | None = None
    """One of the drafters that the server allows."""
    k: Literal["auto"] | Annotated[int, Field(ge=1)] | None = None
    """Most draft tokens in a row."""
    tree: Count | None = None
    """Most draft tokens per pass on all branches together."""
    report: Literal["figures", "tokens"] | None = None
    """Have the figures of acceptance in the answer, or those and each token's origin."""

    @model_validator(mode="after")
    def _off_stands_alone(self) -> Speculation:
        if self.off and (self.drafter, self.k, self.tree) != (None, None, None):
            raise ValueError("off goes without drafter, k and tree; leave out one or the other")
        if self.drafter == "none" and (self.k, self.tree) != (None, None):
            raise ValueError("the drafter none drafts nothing; leave out k and tree")
        return self


class TextPart(Body):
    """A part of a content; parts other than text are not served."""

    type: Literal["text"]
    text: str


class Prediction(Body):
    """What the answer will probably be; the nearer, the sooner it comes."""

    type: Literal["content"]
    content: str | list[TextPart]


class SharedFields(Body):
    """Fields of both APIs."""

    NOT_OFFERED: ClassVar[frozenset[str]] = frozenset()
    """Fields of OpenAI's API that this server lacks; null is as good as leaving them out."""

    model: str
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logit_bias: dict[str, Bias] | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    seed: Annotated[int, Field(ge=-INT64, lt=INT64)] | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    user: str | None = None
    """Shown in the log."""

    top_k: Annotated[int, Field(ge=0)] | None = None
    """Extension: keep the k most probable tokens; 0 keeps all."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Extension: keep tokens of at least this share of the best one's probability."""
    repetition_penalty: Annotated[float, Field(gt=0)] | None = None
    """Extension: divides the logits of tokens seen before; 1 is off."""
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    """Extension: fewest tokens before the answer may end."""
    ignore_eos: bool | None = None
    """Extension: go on after an end-of-text token."""
    prediction: Prediction | None = None
    speculation: Speculation | None = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        absent = [name for name in cls.NOT_OFFERED if data.get(name, 0) is None]
        return {name: value for name, value in data.items() if name not in absent}

    @property
    def num_choices(self) -> int:
        """Answers to each prompt."""
        return 1 if self.n is None else self.n

    @property
    def is_streamed(self) -> bool:
        """Whether the answer comes in pieces."""
        return bool(self.stream)

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


def text_of(content: str | list[TextPart]) -> str:
    """The text of a content, whether in parts or not."""
    return content if isinstance(content, str) else "".join(part.text for part in content)
