"""Runs the drafters' benchmark: every subject answers every question, by turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.drafters_plan import Group, Plan
from benchmarks.drafters_prediction import nearly_right
from benchmarks.drafters_subjects import PLAIN, Answer, Question, Subject
from benchmarks.drafters_work import Run, WorkFile
from oneglance.config import SamplingParams
from oneglance.errors import OneglanceError
from oneglance.llm import LLM


class DifferentAnswerError(OneglanceError):
    """A drafter changed an answer: there is nothing to measure before that is mended."""


def measure(
    plan: Plan,
    llm: LLM,
    subjects: Sequence[Subject],
    work: WorkFile,
    report: Callable[[int, int, dict[str, Run]], None],
) -> list[dict[str, Run]]:
    """Runs every group that is not in the work file yet.

    Args:
        plan: what is asked.
        llm: the model, which the first of the subjects decodes plainly.
        subjects: who answers; `PLAIN` comes first.
        work: what is done already, and where the rest is kept.
        report: told the number of the group, how many there are, and its runs.

    Returns:
        The runs of every group, by subject.

    Raises:
        DifferentAnswerError: a drafter changed an answer.
    """
    assert subjects[0].label == PLAIN, "all others are compared with plain decoding"
    questions = Questions(plan, llm, subjects[0])
    groups = plan.groups()
    done = []
    for number, group in enumerate(groups, 1):
        present = [each for each in subjects if group.temperature == 0 or not each.is_peer]
        runs = work.find(group, [each.label for each in present])
        if runs is None:
            answers = answer_in_turn(present, questions.of(group), group.is_reversed)
            if plan.must_agree(group.temperature):
                check_agreement(group, answers)
            runs = {label: Run.of(group, label, each) for label, each in answers.items()}
            work.add(list(runs.values()))
            report(number, len(groups), runs)
        done.append(runs)
    return done


def answer_in_turn(
    subjects: Sequence[Subject], question: Question, is_reversed: bool
) -> dict[str, Answer]:
    """Each subject's answer, by label in the order of the subjects."""
    answers = {each.label: each.answer(question) for each in subjects[:: -1 if is_reversed else 1]}
    return {each.label: answers[each.label] for each in subjects}


def check_agreement(group: Group, answers: Mapping[str, Answer]) -> None:
    """Every subject whose tokens are known gave those of plain decoding.

    Raises:
        DifferentAnswerError: one of them did not.
    """
    expected = answers[PLAIN].token_ids
    for label, answer in answers.items():
        if answer.token_ids is not None and answer.token_ids != expected:
            raise DifferentAnswerError(
                f"The drafter {label} changed the answer to prompt {group.prompt.id} at "
                f"temperature {group.temperature:g}; mend it before its speed is measured."
            )


@dataclass
class Questions:
    """Makes the questions; those that predict the model's own answer need that first."""

    plan: Plan
    llm: LLM
    plain: Subject
    _predictions: dict[tuple[str, float], str] = field(default_factory=dict)

    def of(self, group: Group) -> Question:
        """The question of a group."""
        prompt = group.prompt
        plain = Question(
            text=prompt.text,
            token_ids=tuple(self.llm.encode(prompt.text)),
            params=self.plan.params(prompt, group.temperature),
            prediction=prompt.prediction,
            # A drafter that remembers answers must not have seen this one in an earlier round.
            tenant=f"{group.temperature:g} {group.round}",
        )
        if not self.plan.predicts_own_answer:
            return plain
        key = prompt.id, group.temperature
        if key not in self._predictions:
            self._predictions[key] = self._own_answer(plain, prompt.seed)
        return replace(plain, prediction=self._predictions[key])

    def _own_answer(self, question: Question, seed: int) -> str:
        """The answer, changed here and there; it is not timed."""
        tokens = self.plain.answer(question).token_ids
        assert tokens is not None, "plain decoding tells its tokens"
        tokenizer = self.llm.tokenizer
        own = [token for token in tokens if token not in tokenizer.eos_ids]
        return tokenizer.decode(nearly_right(own, seed))


def warm_up(plan: Plan, llm: LLM, subjects: Sequence[Subject]) -> Iterator[str]:
    """A short answer of every subject: loads drafters, and refuses what cannot be measured.

    Yields:
        The label of who answers next.
    """
    question = Questions(plan, llm, subjects[0]).of(plan.groups()[0])
    params = SamplingParams(max_tokens=min(8, plan.max_tokens))
    short = replace(question, params=params, tenant="warm-up")
    for subject in subjects:
        yield subject.label
        subject.answer(short)
