"""The benchmark under load runs against our server and, here, a small one like llama.cpp's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.serving_options import check_arguments, parse_arguments
from oneglance.errors import ParameterError
from tests.benchmarks.test_scripts import run_script

PROGRAM = """\
#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

if "--version" in sys.argv:
    print("version: 77 (abc1234)")
    sys.exit()
if "--help" in sys.argv:
    sys.exit()
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert int(options["-c"]) > 64 * int(options["-np"])
with open({log!r}, "a") as log:
    print(options["-np"], file=log)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply(b"{{}}")

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/completion" and asked["stream"] and not asked["cache_prompt"]
        last = dict(content="", stop=True, tokens_predicted=asked["n_predict"])
        events = [dict(content="text", stop=False), last]
        self.reply(b"".join(b"data: " + json.dumps(each).encode() + b"\\n\\n" for each in events))

    def reply(self, content):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


ThreadingHTTPServer((options["--host"], int(options["--port"])), Handler).serve_forever()
"""
PROMPTS = ("Name a colour.", "Count to five.", "Say hello.")


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    lines = [
        json.dumps({"id": str(number), "category": "qa", "prompt": text})
        for number, text in enumerate(PROMPTS)
    ]
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_all_servers_are_measured_and_the_run_goes_on_where_it_was(
    prompts: Path, tmp_path: Path
) -> None:
    log, program, out = tmp_path / "log", tmp_path / "llama-server", tmp_path / "out.json"
    program.write_text(PROGRAM.format(python=sys.executable, log=str(log)))
    program.chmod(0o755)
    command = (
        *("serving", "--prompts", prompts, "--levels", 1, 3, "--requests", 2, "--rounds", 1),
        *("--max-tokens", 6, "--llama-server", program, "--json", out),
    )
    done = run_script(*command)
    assert done.returncode == 0, done.stderr
    assert "tokens per second of all requests together" in " ".join(done.stdout.split())
    report = json.loads(out.read_text())
    assert report["llama_server"] == "77 (abc1234)"
    assert str(tmp_path) not in out.read_text()
    assert list(report["results"]) == ["1", "3"]
    for level, count in (("1", 2), ("3", 6)):
        found = report["results"][level]
        assert list(found) == ["auto", "off", "llama-server plain"]
        assert [each["requests"] for each in found.values()] == [count] * 3
        assert found["auto"]["tokens"] == found["off"]["tokens"]
        assert found["off"]["identical"] == count
        assert found["llama-server plain"]["identical"] == 0
        assert found["off"]["counts"]["drafted"] == 0
        assert found["off"]["counts"]["passes"] > 0
    assert log.read_text().split() == ["1", "3"]  # as many slots as streams
    out.unlink()
    again = run_script(*command)
    assert again.returncode == 0, again.stderr
    assert "tokens/s" not in again.stderr
    assert json.loads(out.read_text())["results"] == report["results"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--levels", "2", "2"), "names a number twice"),
        (("--llama-setting", "plain"), "goes with --llama-server"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        check_arguments(parse_arguments("x", arguments))


def test_errors_are_one_sentence() -> None:
    done = run_script("serving", "--model", "no-such-model")
    assert done.returncode == 1
    assert "error: Unknown model 'no-such-model'" in done.stderr
    assert "Traceback" not in done.stderr
