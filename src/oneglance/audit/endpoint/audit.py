"""`oneglance audit endpoint`: all checks of a server, in order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from oneglance.audit.endpoint.connection import (
    BrokenAnswerError,
    Connection,
    RefusedError,
    SlowAnswerError,
)
from oneglance.audit.endpoint.greedy import (
    check_against,
    check_extremes,
    check_repeat,
    check_stepwise,
    check_together,
)
from oneglance.audit.endpoint.limits import (
    check_context_end,
    check_end_of_text,
    check_max_tokens,
    check_stop,
)
from oneglance.audit.endpoint.logprobs import check_logprobs
from oneglance.audit.endpoint.penalties import check_logit_bias, check_penalties
from oneglance.audit.endpoint.requests import (
    check_batch,
    check_schema,
    check_seeds,
    check_streaming,
)
from oneglance.audit.endpoint.sampling import check_sampling
from oneglance.audit.endpoint.server import APIS, Api, Server, open_servers
from oneglance.audit.endpoint.session import PROMPTS, Check, Session, Sizes
from oneglance.audit.verdict import Verdict, settle
from oneglance.errors import EndpointError, ParameterError
from oneglance.types import ProgressCallback

CHECKS: tuple[Check, ...] = (
    Check("repeat", check_repeat),
    Check("together", check_together),
    Check("against", check_against),
    Check("stepwise", check_stepwise),
    Check("extremes", check_extremes),
    Check("stop", check_stop),
    Check("max-tokens", check_max_tokens),
    Check("end-of-text", check_end_of_text),
    Check("context-end", check_context_end),
    Check("logprobs", check_logprobs),
    Check("penalties", check_penalties),
    Check("logit-bias", check_logit_bias),
    Check("streaming", check_streaming),
    Check("batch", check_batch),
    Check("seeds", check_seeds),
    Check("schema", check_schema),
    Check("sampling", check_sampling),
)


def audit_endpoint(
    url: str,
    against: str | None = None,
    *,
    model: str | None = None,
    api_key: str | None = None,
    apis: tuple[Api, ...] = APIS,
    only: Sequence[str] = (),
    sizes: Sizes = Sizes(),
    prompts: Sequence[str] | None = None,
    context_length: int | None = None,
    timeout_seconds: float = 120,
    progress: ProgressCallback | None = None,
) -> list[Verdict]:
    """Runs the checks on each API that a server has.

    Args:
        url: of the server that is audited.
        against: of a server that runs the same model without speculation, say.
        model: its name in requests; None: the first that the server lists.
        api_key: sent to both.
        apis: which APIs to look at.
        only: names of checks; empty: all.
        sizes: how much to ask.
        prompts: texts to use instead of the built-in ones.
        context_length: of the model; None: as the server tells.
        timeout_seconds: for each answer.
        progress: told before each check.

    Returns:
        A verdict for each property and API, corrected for the number of tests.

    Raises:
        EndpointError: a server cannot be reached or has none of the APIs.
        ParameterError: a check is unknown, or a URL is none.
    """
    checks = select_checks(only)
    with ExitStack() as endings:
        connections = [
            Connection(each, api_key, timeout_seconds) for each in (url, against) if each
        ]
        for connection in connections:
            endings.callback(connection.close)
        servers, told = open_servers(connections[0], model, apis)
        references: dict[str, Server] = {}
        if against is not None:
            opened, _ = open_servers(connections[1], model, apis)
            references = {server.api: server for server in opened}
        sessions = [
            Session(
                server=server,
                against=references.get(server.api),
                sizes=sizes,
                prompts=tuple(prompts or PROMPTS[server.api]),
                context_length=context_length or told,
            )
            for server in servers
        ]
        return list(settle(_run_all(checks, sessions, progress), sizes.alpha))


def _run_all(
    checks: Sequence[Check], sessions: Sequence[Session], progress: ProgressCallback | None
) -> list[Verdict]:
    """Every check of every session; where the server stops answering, what was found till then."""
    verdicts: list[Verdict] = []
    pairs = [(session, check) for session in sessions for check in checks]
    for done, (session, check) in enumerate(pairs):
        if progress is not None:
            progress(f"{session.subject}: {check.name}", done, len(pairs))
        try:
            verdicts += _run(check, session)
        except EndpointError as error:
            detail = f"The server stopped answering, and the audit ends here: {error}"
            verdicts.append(Verdict(check.name, session.subject, "fault", detail))
            break
    if progress is not None:
        progress("done", len(pairs), len(pairs))
    return verdicts


def select_checks(only: Sequence[str]) -> list[Check]:
    """The checks of these names, in the order of the audit; all if there are none.

    Raises:
        ParameterError: a name is unknown; the message lists those that exist.
    """
    known = [check.name for check in CHECKS]
    for name in only:
        if name not in known:
            raise ParameterError(f"Unknown check {name!r}; choose one of: {', '.join(known)}.")
    return [check for check in CHECKS if not only or check.name in only]


def _run(check: Check, session: Session) -> list[Verdict]:
    """One check; a server that fails in the midst of it is at fault, not the audit."""
    try:
        return check.run(session)
    except BrokenAnswerError as error:
        detail = f"The server fails while this is checked: {error}."
        return [Verdict(check.name, session.subject, "fault", detail)]
    except SlowAnswerError as error:
        return [Verdict(check.name, session.subject, "unclear", str(error))]
    except RefusedError as error:
        detail = f"The server refuses what this check needs ({error})."
        return [Verdict(check.name, session.subject, "not offered", detail)]
