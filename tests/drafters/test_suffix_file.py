"""Past answers outlive the process: `suffix:global=FILE`, save and load, and what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from oneglance import load
from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Tokenizer
from oneglance.engine.native import is_available, why_unavailable
from oneglance.errors import ParameterError, UnsupportedError
from tests.tiny_models import write_tiny_gguf

if not is_available():
    pytest.skip(str(why_unavailable()), allow_module_level=True)

from oneglance.drafters.suffix import SuffixDrafter
from oneglance.drafters.suffix_factory import make_suffix
from oneglance.drafters.suffix_file import VocabularyStamp, read_answers, write_answers
from oneglance.drafters.suffix_memory import MemoryLimits, SuffixMemory

STAMP = VocabularyStamp("words", 100)
ANSWERS = {"": [[1, 2, 3], [4]], "Zoë\n": [[99, 0, 99]]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_tiny_gguf(path, seed=0)
    return path


@pytest.fixture(scope="module")
def tokenizer(model: Path) -> Tokenizer:
    return load_checkpoint(model).tokenizer


def remembering(limits: MemoryLimits = MemoryLimits()) -> tuple[SuffixDrafter, SuffixMemory]:
    memory = SuffixMemory(STAMP, limits)
    return SuffixDrafter(memory=memory), memory


def as_lists(memory: SuffixMemory) -> dict[str, list[list[int]]]:
    return {tenant: [each.tolist() for each in those] for tenant, those in memory.answers().items()}


def saved(path: Path) -> Path:
    drafter, memory = remembering()
    for tenant, those in ANSWERS.items():
        for answer in those:
            memory.add(tenant, answer)
    drafter.save(path)
    return path


def test_what_is_saved_is_loaded_in_its_order(tmp_path: Path) -> None:
    path = saved(tmp_path / "answers")
    drafter, memory = remembering()
    memory.add("gone", [7, 8, 9])
    drafter.load(path)
    assert as_lists(memory) == ANSWERS
    assert list(memory.answers()) == list(ANSWERS)
    drafter.save(path)
    assert path.read_bytes() == saved(tmp_path / "again").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["again", "answers"]


def test_an_empty_memory_has_a_file_too(tmp_path: Path) -> None:
    drafter, memory = remembering()
    drafter.save(tmp_path / "answers")
    drafter.load(tmp_path / "answers")
    assert as_lists(memory) == {}


def test_limits_hold_for_what_is_loaded(tmp_path: Path) -> None:
    path = saved(tmp_path / "answers")
    drafter, memory = remembering(MemoryLimits(max_answers=1))
    drafter.load(path)
    assert as_lists(memory) == {"": [[4]], "Zoë\n": [[99, 0, 99]]}


def test_every_broken_byte_is_found(tmp_path: Path) -> None:
    path = saved(tmp_path / "answers")
    content = path.read_bytes()
    drafter, memory = remembering()
    memory.add("", [5, 6])
    broken = [content[:-1], content[:40], b"", content + b"x"]
    broken += [
        content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in range(len(content))
    ]
    for each in broken:
        path.write_bytes(each)
        with pytest.raises(ParameterError, match="delete it or name another"):
            drafter.load(path)
    assert as_lists(memory) == {"": [[5, 6]]}


@pytest.mark.parametrize(
    ("header", "tokens"),
    [
        (b'{"vocabulary": "words", "vocab_size": 100, "tenants": [["", [2]]]}', [1]),
        (b'{"vocabulary": "words", "vocab_size": 100, "tenants": [["", [1]]]}', [1, 2]),
        (b'{"vocabulary": "words", "vocab_size": 100, "tenants": [["", [1]]]}', [100]),
        (b'{"vocabulary": "words", "vocab_size": 100, "tenants": [["", [1]]]}', [-1]),
        (b'{"vocabulary": "words", "vocab_size": 100, "tenants": [["", [-1, 2]]]}', [1]),
        (b'{"vocabulary": "words", "vocab_size": 100, "tenants": 5}', []),
        (b'{"vocabulary": "words"}', []),
        (b"[]", []),
        (b"nonsense", []),
    ],
)
def test_a_file_that_was_made_to_deceive_is_refused(
    tmp_path: Path, header: bytes, tokens: list[int]
) -> None:
    data = np.array(tokens, dtype="<i4").tobytes()
    content = b"oneglance past answers 1\n" + header + b"\n" + data
    path = tmp_path / "answers"
    path.write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(ParameterError, match="delete it or name another"):
        read_answers(path, STAMP)


@pytest.mark.parametrize("other", [VocabularyStamp("others", 100), VocabularyStamp("words", 99)])
def test_another_vocabulary_is_refused(tmp_path: Path, other: VocabularyStamp) -> None:
    path = saved(tmp_path / "answers")
    with pytest.raises(UnsupportedError, match="another vocabulary"):
        SuffixDrafter(memory=SuffixMemory(other)).load(path)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"cannot be read \(No such file"):
        read_answers(tmp_path / "missing", STAMP)
    with pytest.raises(ParameterError, match="cannot be written to"):
        write_answers(tmp_path / "no" / "folder", STAMP, {})
    (tmp_path / "folder").mkdir()
    with pytest.raises(ParameterError, match="cannot be written to"):
        write_answers(tmp_path / "folder", STAMP, {})
    assert [each.name for each in tmp_path.iterdir()] == ["folder"], "a draft was left behind"


@pytest.mark.parametrize("argument", ["x", "global=", "globals", "=a", "local=a"])
def test_arguments_that_mean_nothing(tokenizer: Tokenizer, argument: str) -> None:
    with pytest.raises(ParameterError, match="write suffix, suffix:global or suffix:global=FILE"):
        make_suffix(argument, tokenizer)


def test_a_file_is_refused_before_any_work(tokenizer: Tokenizer, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(ParameterError, match="Past answers cannot be kept in"):
            make_suffix(f"global={path}", tokenizer)
    with pytest.raises(UnsupportedError, match="another vocabulary"):
        make_suffix(f"global={saved(tmp_path / 'a=b')}", tokenizer)


def test_names(tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert make_suffix("", tokenizer).name == "suffix"
    assert make_suffix("global", tokenizer).name == "suffix:global"
    assert make_suffix(f"global={tmp_path / 'new'}", tokenizer).name == "suffix:global"
    assert not (tmp_path / "new").exists()


def test_closing_the_model_saves_and_the_next_one_goes_on(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "answers"
    prompt = "hello"
    with load(str(model), drafter=f"suffix:global={path}", k=4) as llm:
        first = llm.generate(prompt, raw=True, max_tokens=12, tenant="me", ignore_eos=True)
        assert not path.exists()
    with load(str(model), drafter=f"suffix:global={path}", k=4) as llm:
        again = llm.generate(prompt, raw=True, max_tokens=12, tenant="me", ignore_eos=True)
        other = llm.generate(prompt, raw=True, max_tokens=12, tenant="you", ignore_eos=True)
        stamp = VocabularyStamp(llm.tokenizer.fingerprint(), llm.tokenizer.vocab_size)
    ids = [token.token_id for token in first.tokens]
    for completion in (again, other):
        assert [token.token_id for token in completion.tokens] == ids
    assert again.stats.passes < first.stats.passes
    assert other.stats.passes == first.stats.passes
    kept = read_answers(path, stamp)
    assert {name: [each.tolist() for each in those] for name, those in kept.items()} == {
        "me": [ids, ids],
        "you": [ids],
    }
