"""The module that is trained is the head of the definition, and its loss is Medusa-1's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from oneglance.checkpoints.base import Tensor
from oneglance.heads.medusa import MedusaConfig, medusa_weights
from oneglance.train.medusa_module import IGNORED, MedusaModule, head_labels, medusa_loss
from tests.heads.medusa_heads import random_heads, slow_logits

D, V = 32, 11


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors this small are not worth waking other threads."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def config(num_layers: int = 1, has_own_outputs: bool = True) -> MedusaConfig:
    return MedusaConfig(D, V, 3, num_layers, V, has_own_outputs)


def output(seed: int = 9) -> torch.Tensor:
    generator = np.random.default_rng(seed)
    return torch.from_numpy(generator.standard_normal((V, D)).astype(np.float32))


def features(*shape: int) -> torch.Tensor:
    generator = np.random.default_rng(4)
    return torch.from_numpy(generator.standard_normal((*shape, D)).astype(np.float32))


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("has_own_outputs", [True, False])
def test_it_says_what_the_definition_says(num_layers: int, has_own_outputs: bool) -> None:
    arrays = random_heads(D, 3, num_layers, V if has_own_outputs else None)
    module = MedusaModule(config(num_layers, has_own_outputs), output())
    module.load_state_dict({name: torch.from_numpy(a) for name, a in arrays.items()})
    rows = features(5)
    said = module(rows).detach().numpy()
    wanted = slow_logits(arrays, rows.numpy(), output().numpy()).swapaxes(0, 1)
    np.testing.assert_allclose(said, wanted, rtol=0, atol=1e-4)  # float32, sums of 32 terms


def test_its_names_are_those_of_the_file_format() -> None:
    state = MedusaModule(config(num_layers=2), output()).state_dict()
    tensors = {name: Tensor(name, tuple(t.shape), "F32", t.numpy()) for name, t in state.items()}
    assert medusa_weights(tensors, D, V).config == config(num_layers=2)
    shared = MedusaModule(config(has_own_outputs=False), output()).state_dict()
    assert not any(name.endswith(".1.weight") or "output" in name for name in shared)


def test_it_begins_as_the_target() -> None:
    rows = features(2, 4)
    expected = rows @ output().T
    for has_own_outputs in (True, False):
        module = MedusaModule(config(has_own_outputs=has_own_outputs), output())
        for head in range(3):
            torch.testing.assert_close(module.head_logits(head, rows), expected)


def test_only_what_is_its_own_is_trained() -> None:
    shared = MedusaModule(config(has_own_outputs=False), output())
    assert len(list(shared.parameters())) == 2 * 3
    own = MedusaModule(config(), output())
    assert len(list(own.parameters())) == 3 * 3


def test_head_k_learns_the_token_k_and_2_places_on() -> None:
    labels = torch.tensor([[5, IGNORED, 7, 8, 9]])
    assert head_labels(labels, 0).tolist() == [[7, 8, 9, IGNORED, IGNORED]]
    assert head_labels(labels, 1).tolist() == [[8, 9, IGNORED, IGNORED, IGNORED]]
    assert head_labels(labels, 5).tolist() == [[IGNORED] * 5]


def test_the_loss_is_the_weighted_sum_of_cross_entropies() -> None:
    module = MedusaModule(config(), output())
    states, labels = features(2, 6), torch.tensor([[1, 2, 3, IGNORED, 5, 6], [6, 5, 4, 3, 2, 1]])
    loss, accuracies = medusa_loss(module, states, labels)
    logs = torch.log_softmax((states @ output().T).double(), dim=-1)
    expected, right = 0.0, []
    for head in range(3):
        places = [
            (text, place, int(labels[text, place + head + 2]))
            for text in range(2)
            for place in range(6 - head - 2)
            if labels[text, place + head + 2] != IGNORED
        ]
        entropies = [-float(logs[text, place, token]) for text, place, token in places]
        expected += 0.8**head * sum(entropies) / len(entropies)
        hits = [int(logs[text, place].argmax()) == token for text, place, token in places]
        right.append(sum(hits) / len(hits))
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
    assert accuracies.tolist() == pytest.approx(right)
    assert not accuracies.requires_grad


def test_nothing_to_learn_is_no_loss() -> None:
    module = MedusaModule(config(), output())
    loss, accuracies = medusa_loss(module, features(1, 2), torch.tensor([[1, 2]]))
    assert float(loss.detach()) == 0.0
    assert accuracies.tolist() == [0.0, 0.0, 0.0]
    loss.backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("has_own_outputs", [True, False])
def test_it_learns(has_own_outputs: bool) -> None:
    """A text in which each token says what comes two and more places on."""
    torch.manual_seed(0)
    module = MedusaModule(config(has_own_outputs=has_own_outputs), output())
    tokens = torch.arange(40).remainder(V)[None]
    states = output(3)[tokens]
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    first = None
    for _ in range(60):
        loss, accuracies = medusa_loss(module, states, tokens)
        first = float(loss.detach()) if first is None else first
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert first is not None
    assert float(loss.detach()) < 0.2 * first
    assert accuracies.tolist() == [1.0, 1.0, 1.0]
