"""Forms of a request: streamed, several prompts at once, with a seed, bound to a schema."""

from __future__ import annotations

import json
from typing import Any

from oneglance.audit.endpoint.answer import Answer, parse_answer
from oneglance.audit.endpoint.compare import first_divergence
from oneglance.audit.endpoint.connection import BrokenAnswerError, RefusedError, Stream
from oneglance.audit.endpoint.greedy import compare
from oneglance.audit.endpoint.session import Session
from oneglance.audit.tally import Tally
from oneglance.audit.verdict import Verdict

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}
RESPONSE_FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
}


def check_streaming(session: Session) -> list[Verdict]:
    """Streams greedy answers: the pieces must make up the answer that comes in one piece."""
    tally = Tally("streaming", session.subject)
    for prompt in session.prompts:
        for limit in (session.sizes.num_tokens, 5):
            params: dict[str, Any] = {"max_tokens": limit, "temperature": 0}
            whole = session.server.ask(prompt, **params, top=session.server.num_top)
            try:
                stream, answer = _streamed(session, prompt, params)
            except RefusedError as error:
                tally.note("not offered", f"Streaming was refused ({error}).")
                return [tally.verdict("")]
            except BrokenAnswerError as error:
                tally.size += 1
                tally.fault(f"A stream cannot be read: {error}.", prompt=prompt)
                continue
            _judge_stream(tally, session, prompt, whole, stream, answer)
    return [tally.verdict("Streams carry every token, the same usage and the same ending.")]


def _streamed(session: Session, prompt: str, params: dict[str, Any]) -> tuple[Stream, Answer]:
    """Streams with the usage at the end; without it where the server refuses that."""
    top = session.server.num_top
    try:
        return session.server.stream(
            prompt, **params, top=top, stream_options={"include_usage": True}
        )
    except RefusedError:
        return session.server.stream(prompt, **params, top=top)


def _judge_stream(
    tally: Tally, session: Session, prompt: str, whole: Answer, stream: Stream, answer: Answer
) -> None:
    tally.size += 1
    facts = {"prompt": prompt, "streamed": answer.text, "whole": whole.text}
    if stream.error is not None or not stream.is_done:
        why = stream.error or "there is no [DONE]"
        tally.fault(f"A stream breaks off ({why}).", **facts)
        return
    if whole.text.startswith(answer.text) and answer.text != whole.text:
        missing = whole.text[len(answer.text) :]
        tally.fault(f"The stream ends too early, before {missing[:40]!r}.", **facts)
        return
    if answer.text != whole.text:
        found = first_divergence(answer, whole, session.bound())
        if found is not None:
            tally.note(found.status, f"Streamed: {found.sentence()}", **facts, **found.to_dict())
        return
    if answer.finish_reason != whole.finish_reason:
        reasons = f"{answer.finish_reason!r} streamed, {whole.finish_reason!r} in one piece"
        tally.fault(f"The finish reasons differ: {reasons}.", **facts)
    counts = (answer.completion_tokens, whole.completion_tokens)
    if None not in counts and counts[0] != counts[1]:
        tally.fault(f"Usage differs: {counts[0]} streamed, {counts[1]} in one piece.", **facts)
    listed = [each.token_texts for each in (answer, whole)]
    if None not in listed and listed[0] != listed[1]:
        tally.fault("Streamed tokens are others than those in one piece.", **facts)


def check_batch(session: Session) -> list[Verdict]:
    """Sends several prompts in one request: each answer must be that of the prompt alone."""
    if session.server.api != "completions":
        return []
    tally = Tally("several prompts in one request", session.subject)
    prompts = list(session.prompts)
    try:
        body = session.server.ask_raw(
            prompts,
            max_tokens=session.sizes.num_tokens,
            temperature=0,
            top=session.server.num_top,
        )
    except RefusedError as error:
        tally.note("not offered", f"A list of prompts was refused ({error}).")
        return [tally.verdict("")]
    except BrokenAnswerError as error:
        tally.fault(f"A list of prompts is not answered: {error}.")
        return [tally.verdict("")]
    places = {each.get("index", place): place for place, each in enumerate(body["choices"])}
    if sorted(places) != list(range(len(prompts))):
        tally.fault(f"{len(prompts)} prompts got {len(places)} answers.")
        return [tally.verdict("")]
    for index, prompt in enumerate(prompts):
        answer = parse_answer(body, places[index])
        compare(tally, session, prompt, session.greedy(prompt), answer)
    return [tally.verdict("Each answer of a batch is that of its prompt alone.")]


def check_seeds(session: Session) -> list[Verdict]:
    """Samples twice with each seed: the same must come; and with others: something else."""
    tally = Tally("seeds", session.subject)
    answers: list[list[str]] = []
    size = session.sizes.num_tokens
    for prompt in session.prompts:
        for seed in (1, 2):
            try:
                pair = [session.server.sample(prompt, size, seed=seed).text for _ in range(2)]
            except RefusedError as error:
                tally.note("not offered", f"A seed was refused ({error}).")
                return [tally.verdict("")]
            tally.size += 1
            answers.append(pair)
    num_equal = sum(one == other for one, other in answers)
    pairs = [(answers[index][0], answers[index + 1][0]) for index in range(0, len(answers), 2)]
    if num_equal == 0:
        tally.fault("A seed is taken and has no effect: no answer came again.", example=answers[0])
    elif num_equal < len(answers):
        share = f"{num_equal} of {len(answers)}"
        changed = next(pair for pair in answers if pair[0] != pair[1])
        tally.note("unclear", f"With a seed, {share} answers came again.", example=changed)
    if all(one == other for one, other in pairs):
        tally.note("unclear", "Different seeds give the same answers: it may not sample at all.")
    return [tally.verdict("The same seed gives the same answer, another seed another.")]


def check_schema(session: Session) -> list[Verdict]:
    """Asks for JSON of a schema with two possible values: nothing else may come.

    OpenAI's API has `response_format` for chat only.
    """
    if session.server.api != "chat":
        return []
    tally = Tally("JSON schema", session.subject)
    for prompt in session.prompts:
        try:
            answer = session.server.ask(
                prompt, max_tokens=64, temperature=0, response_format=RESPONSE_FORMAT
            )
        except RefusedError as error:
            tally.note("not offered", f"response_format was refused ({error}).")
            break
        except BrokenAnswerError as error:
            tally.size += 1
            tally.fault(f"A schema ends in an error: {error}.", prompt=prompt)
            continue
        tally.size += 1
        if not _obeys(answer):
            tally.fault("The answer does not obey the schema.", prompt=prompt, text=answer.text)
    return [tally.verdict("Every answer obeys the schema.")]


def _obeys(answer: Answer) -> bool:
    try:
        value = json.loads(answer.text)
    except ValueError:
        # White space without end obeys the schema, too.
        return answer.finish_reason == "length" and not answer.text.strip().strip('{"answer: }')
    return isinstance(value, dict) and value in ({"answer": "yes"}, {"answer": "no"})
