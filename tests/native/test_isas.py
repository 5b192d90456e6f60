"""Every kernel gives the same bits on every instruction set, those that this CPU lacks included.

A program made for it (csrc/digest/) prints a hash of what each kernel computes, extremes and all
row counts included. AVX-512 is emulated by SIMDe and aarch64 by QEMU where they are not at hand;
on Debian: `apt-get install libsimde-dev g++-aarch64-linux-gnu qemu-user`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from oneglance import _native
from tests.native.conftest import HAS_COMPILER
from tests.native.digest import CMAKE, NINJA, Digest, build

AVAILABLE = _native.available_isas()
SIMDE = [Path(prefix) / "simde" for prefix in ("/usr/include", "/usr/local/include")]
CROSS_COMPILER = "aarch64-linux-gnu-g++"
QEMU = next((name for name in ("qemu-aarch64", "qemu-aarch64-static") if shutil.which(name)), None)
KERNELS = {
    "attend",
    "best_with_noise",
    "choices",
    "doubles",
    "embed",
    "gumbel",
    "matmul",
    "matmul_floats",
    "quantize_rows",
    "rms_norm",
    "rope",
    "store_kv",
    "swiglu",
    "weights",
}

can_emulate_avx512 = "avx2" in AVAILABLE and any(folder.is_dir() for folder in SIMDE)
can_emulate_aarch64 = QEMU is not None and shutil.which(CROSS_COMPILER) is not None
pytestmark = pytest.mark.skipif(
    not (HAS_COMPILER and CMAKE and NINJA), reason="needs a C++ compiler, CMake and Ninja"
)
aarch64_emulated = pytest.mark.skipif(
    not can_emulate_aarch64, reason=f"{CROSS_COMPILER} and QEMU's user mode are not installed"
)


@pytest.fixture(scope="module")
def host() -> Digest:
    is_emulated = can_emulate_avx512 and "avx512" not in AVAILABLE
    return build("host", [f"-DONEGLANCE_EMULATE_AVX512={'ON' if is_emulated else 'OFF'}"])


@pytest.fixture(scope="module")
def expected(host: Digest) -> list[str]:
    return host.of("portable")


@pytest.fixture(scope="module")
def aarch64() -> Digest:
    options = {
        "SYSTEM_NAME": "Linux",
        "SYSTEM_PROCESSOR": "aarch64",
        "CXX_COMPILER": CROSS_COMPILER,
        # So that no libraries of that processor are looked for.
        "EXE_LINKER_FLAGS": "-static",
    }
    program = build("aarch64", [f"-DCMAKE_{name}={value}" for name, value in options.items()])
    assert QEMU is not None
    return program.on(QEMU)


def test_every_kernel_is_in_the_digest(expected: list[str]) -> None:
    assert {line.split()[0] for line in expected} == KERNELS
    assert len(set(expected)) == len(expected)


@pytest.mark.parametrize("isa", AVAILABLE)
def test_this_cpu(isa: str, host: Digest, expected: list[str]) -> None:
    assert host.isas() == AVAILABLE
    assert host.of(isa) == expected


@pytest.mark.skipif(
    "avx512" not in AVAILABLE and not can_emulate_avx512,
    reason="neither AVX-512 nor SIMDe's headers with AVX2 are here",
)
def test_avx512(host: Digest, expected: list[str]) -> None:
    assert host.of("avx512") == expected


@pytest.mark.skipif(
    "avx512" not in AVAILABLE or not can_emulate_avx512,
    reason="AVX-512 is emulated anyway, or SIMDe's headers are not here",
)
def test_avx512_can_be_emulated_elsewhere(expected: list[str]) -> None:
    """What uses an instruction that the emulation lacks would fail on other machines only."""
    assert build("emulated", ["-DONEGLANCE_EMULATE_AVX512=ON"]).of("avx512") == expected


@aarch64_emulated
@pytest.mark.parametrize("isa", ["neon", "portable"])
def test_aarch64(isa: str, aarch64: Digest, expected: list[str]) -> None:
    assert aarch64.isas() == ["neon", "portable"]
    assert aarch64.of(isa) == expected


@aarch64_emulated
def test_aarch64_without_the_dot_product(aarch64: Digest, expected: list[str]) -> None:
    command = aarch64.command
    old = Digest((command[0], "-cpu", "cortex-a53", *command[1:]))
    assert old.isas() == ["portable"]
    assert old.of("portable") == expected
