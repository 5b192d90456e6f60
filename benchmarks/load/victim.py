"""A client process that is to be killed: streams answers, and says so on its output.

    python victim.py PORT PATH < BODIES

A line of its input is a body. It prints a line when all have begun, and leaves when all have ended.
It needs nothing but the standard library, so that it starts at once.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse


def begin(port: int, path: str, body: bytes) -> HTTPResponse:
    """Sends a body and reads the first line of the answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.readline()
    return response


def main() -> None:
    """Reads all answers to their ends, unless it is killed."""
    port, path = int(sys.argv[1]), sys.argv[2]
    bodies = [line.strip() for line in sys.stdin.buffer]
    with ThreadPoolExecutor(len(bodies)) as streams:
        responses = list(streams.map(lambda body: begin(port, path, body), bodies))
        print("reading", flush=True)
        list(streams.map(HTTPResponse.read, responses))


if __name__ == "__main__":
    main()
