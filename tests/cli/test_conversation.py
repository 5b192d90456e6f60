from __future__ import annotations

import pytest

from oneglance.cli.conversation import HELP, Conversation
from oneglance.completion import Completion
from oneglance.errors import ParameterError
from oneglance.types import EngineInfo, SpeculationStats, Token


def completion_of(num_tokens: int) -> Completion:
    return Completion(
        text="x" * num_tokens,
        tokens=tuple(Token(7, "plain", None, -0.1, index) for index in range(num_tokens)),
        finish_reason="stop",
        stop_reason=2,
        prompt_tokens=10,
        drafter="ngram",
        stats=SpeculationStats(passes=num_tokens, delivered=num_tokens, verify_seconds=1.0),
        trace=(),
        seed=None,
        engine=EngineInfo("scripted"),
    )


def test_history_grows_by_a_question_and_its_answer() -> None:
    chat = Conversation(context_length=100)
    assert chat.messages_with("Hi") == [{"role": "user", "content": "Hi"}]
    assert chat.turns == []
    chat.remember("Hi", "Hello", completion_of(3))
    assert [message["content"] for message in chat.messages_with("And?")] == ["Hi", "Hello", "And?"]


def test_a_stopped_answer_stays_but_is_not_counted() -> None:
    chat = Conversation(context_length=100)
    chat.remember("Hi", "Hel", None)
    assert chat.turns[-1] == {"role": "assistant", "content": "Hel"}
    assert "no figures yet" in str(chat.command("/stats"))


def test_reset_forgets_the_turns_and_keeps_the_system_message() -> None:
    chat = Conversation(context_length=100, system="Be brief.")
    chat.remember("Hi", "Hello", completion_of(3))
    chat.command("/reset")
    assert chat.messages_with("Hi") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]


def test_the_system_message_can_be_set_and_shown() -> None:
    chat = Conversation(context_length=100)
    assert chat.command("/system") == "There is no system message."
    chat.command("/system Answer in French, please.")
    assert chat.command("/system") == "Answer in French, please."
    assert chat.messages_with("Hi")[0] == {
        "role": "system",
        "content": "Answer in French, please.",
    }


def test_stats_give_the_last_answer_and_all() -> None:
    chat = Conversation(context_length=100)
    chat.remember("Hi", "Hello", completion_of(3))
    chat.remember("Hi", "Hello", completion_of(5))
    lines = str(chat.command("/stats")).splitlines()
    assert lines[0].startswith("last answer: 5 tokens")
    assert lines[1].startswith("all answers: 8 tokens")
    assert lines[2] == "context: 15 of 100 tokens after the last answer"


def test_tracing_is_switched() -> None:
    chat = Conversation(context_length=100)
    assert chat.command("/trace on") == "The passes are shown."
    assert chat.is_tracing
    assert chat.command("/trace") == "The passes are shown."
    chat.command("/trace off")
    assert not chat.is_tracing


def test_help_names_every_command() -> None:
    assert Conversation(context_length=100).command("/help") == HELP
    assert all(name in HELP for name in ("/help", "/reset", "/system", "/stats", "/trace", "/exit"))


def test_exit_leaves() -> None:
    assert Conversation(context_length=100).command("/exit") is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/quit", "Unknown command '/quit'; /help"),
        ("/", "Unknown command '/'"),
        ("/trace maybe", "/trace 'maybe' is not known"),
        ("/reset now", "/reset takes no 'now'"),
    ],
)
def test_an_unknown_command_is_named(line: str, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Conversation(context_length=100).command(line)
