"""Every subject answers every question, by turns, and the answers are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from oneglance.bench.plan import Group, Plan
from oneglance.bench.prompts import BenchPrompt
from oneglance.bench.run import Run
from oneglance.bench.subject import Answer, Question, Subject
from oneglance.bench.work import WorkFile
from oneglance.config import SamplingParams
from oneglance.errors import OneglanceError

WARM_UP_TOKENS = 8
WARM_UP = BenchPrompt("warm-up", "warm-up", "Count from one to ten.", "One, two, three, four, five")
"""None of the prompts that are measured: a server may keep what it has read."""

Ask = Callable[[Group], Question]
"""Makes the question of a group."""


class DifferentAnswerError(OneglanceError):
    """A drafter changed an answer: there is nothing to measure before that is mended."""


@dataclass(frozen=True)
class Questions:
    """Makes the question of a group.

    Attributes:
        plan: says how answers are sampled.
        encode: a text's token ids; None where no model of ours is measured.
    """

    plan: Plan
    encode: Callable[[str], Sequence[int]] | None

    def __call__(self, group: Group) -> Question:
        """The question of a group."""
        prompt = group.prompt
        return Question(
            text=prompt.text,
            token_ids=() if self.encode is None else tuple(self.encode(prompt.text)),
            params=self.plan.params(prompt, group.temperature),
            prediction=prompt.prediction,
            # A drafter that remembers answers must not have seen this one in an earlier round.
            tenant=f"{group.temperature:g} {group.round}",
        )


def measure(
    plan: Plan,
    ask: Ask,
    subjects: Sequence[Subject],
    work: WorkFile,
    report: Callable[[int, int, dict[str, Run]], None],
) -> list[dict[str, Run]]:
    """Runs every group that is not in the work file yet.

    Args:
        plan: what is asked.
        ask: makes its questions.
        subjects: who answers; all are compared with the first.
        work: what is done already, and where the rest is kept.
        report: told the number of the group, how many there are, and its runs.

    Returns:
        The runs of every group, by subject.

    Raises:
        DifferentAnswerError: a drafter changed an answer.
    """
    groups = plan.groups()
    for number, group in enumerate(groups, 1):
        present = present_at(group, subjects)
        if work.find(group, [each.label for each in present]) is None:
            answers = answer_in_turn(present, ask(group), group.is_reversed)
            must_agree = plan.must_agree(group.temperature)
            if must_agree:
                check_agreement(group, answers)
            runs = make_runs(group, answers, must_agree)
            work.add(list(runs.values()))
            report(number, len(groups), runs)
    return finished(plan, subjects, work)


def finished(plan: Plan, subjects: Sequence[Subject], work: WorkFile) -> list[dict[str, Run]]:
    """The runs of every group that is in the work file, by subject, in the order of the plan."""
    found = (
        work.find(group, [each.label for each in present_at(group, subjects)])
        for group in plan.groups()
    )
    return [runs for runs in found if runs is not None]


def present_at(group: Group, subjects: Sequence[Subject]) -> list[Subject]:
    """Who answers a group."""
    return [each for each in subjects if group.temperature == 0 or not each.is_greedy_only]


def answer_in_turn(
    subjects: Sequence[Subject], question: Question, is_reversed: bool
) -> dict[str, Answer]:
    """Each subject's answer, by label in the order of the subjects."""
    answers = {each.label: each.answer(question) for each in subjects[:: -1 if is_reversed else 1]}
    return {each.label: answers[each.label] for each in subjects}


def check_agreement(group: Group, answers: Mapping[str, Answer]) -> None:
    """Every subject whose tokens are known gave those of the first.

    Raises:
        DifferentAnswerError: one of them did not.
    """
    known = {label: each for label, each in answers.items() if each.token_ids is not None}
    base = next(iter(answers.values()))
    for label, answer in known.items():
        if answer.equals(base) is False:
            raise DifferentAnswerError(
                f"The drafter {label} changed the answer to prompt {group.prompt.id} at "
                f"temperature {group.temperature:g}; mend it before its speed is measured."
            )


def make_runs(group: Group, answers: Mapping[str, Answer], is_compared: bool) -> dict[str, Run]:
    """What is kept of a group.

    Args:
        group: which.
        answers: by subject.
        is_compared: whether our answers had to be equal; those of other programs, which draw
            their own tokens, are compared where nothing is drawn.
    """
    base = next(iter(answers.values()))
    runs = {}
    for label, each in answers.items():
        may_differ = each.token_ids is None and group.temperature > 0
        is_identical = each.equals(base) if is_compared and not may_differ else None
        runs[label] = Run.of(group, label, each, is_identical)
    return runs


def warm_up(plan: Plan, ask: Ask, subjects: Sequence[Subject]) -> Iterator[str]:
    """A short answer of every subject: loads drafters, and refuses what cannot be measured.

    Yields:
        The label of who answers next.
    """
    question = ask(Group(WARM_UP, 0.0, 0, is_reversed=False))
    params = SamplingParams(max_tokens=min(WARM_UP_TOKENS, plan.max_tokens))
    short = replace(question, params=params, tenant=WARM_UP.id)
    for subject in subjects:
        yield subject.label
        subject.answer(short)
