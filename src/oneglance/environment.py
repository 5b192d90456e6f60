"""The one place where environment variables are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from oneglance.errors import ParameterError

CACHE_VARIABLE = "ONEGLANCE_CACHE"
ISA_VARIABLE = "ONEGLANCE_ISA"
API_KEY_VARIABLE = "OPENAI_API_KEY"
SERVER_KEYS_VARIABLE = "ONEGLANCE_API_KEYS"
SERVE_PREFIX = "ONEGLANCE_SERVE_"


@dataclass(frozen=True)
class Environment:
    """What the environment says.

    Attributes:
        cache_dir: folder for everything that can be fetched or measured again. `ONEGLANCE_CACHE`
            if it is set, else the user's cache folder of this platform. It need not exist yet.
        isa: instruction set that the native engine's kernels are to use, `ONEGLANCE_ISA`; None:
            the best that the CPU has. Which names there are depends on the build and the CPU, so
            that the engine checks it.
        api_key: `OPENAI_API_KEY`, sent to the servers that a user names; None: no key is sent.
        server_keys: `ONEGLANCE_API_KEYS`, the keys that `oneglance serve` lets in; None: not set.
        serve: settings of `oneglance serve` by name, from variables such as
            `ONEGLANCE_SERVE_PORT`.
    """

    cache_dir: Path
    isa: str | None = None
    api_key: str | None = field(default=None, repr=False)
    server_keys: str | None = field(default=None, repr=False)
    serve: Mapping[str, str] = field(default_factory=dict)

    @property
    def models_dir(self) -> Path:
        """Where pulled models are kept."""
        return self.cache_dir / "models"

    @property
    def calibrations_dir(self) -> Path:
        """Where it is kept what passes cost on this machine."""
        return self.cache_dir / "calibrations"


def read_environment(variables: Mapping[str, str] | None = None) -> Environment:
    """Reads and checks the variables of this package.

    Args:
        variables: the environment; None: that of this process, as it is now.

    Raises:
        ParameterError: a variable is set to a value that cannot be used.
    """
    variables = os.environ if variables is None else variables
    return Environment(
        cache_dir=_cache_dir(variables.get(CACHE_VARIABLE)),
        # An empty value is the usual way to switch a variable off.
        isa=variables.get(ISA_VARIABLE) or None,
        api_key=variables.get(API_KEY_VARIABLE) or None,
        server_keys=variables.get(SERVER_KEYS_VARIABLE) or None,
        serve={
            name.removeprefix(SERVE_PREFIX).lower(): value
            for name, value in variables.items()
            if name.startswith(SERVE_PREFIX) and value
        },
    )


def child_environment(temporary_dir: Path) -> dict[str, str]:
    """The environment of this process for a child whose temporary files go to `temporary_dir`."""
    return {**os.environ, "TMPDIR": str(temporary_dir), "TEMP": str(temporary_dir)}


def _cache_dir(value: str | None) -> Path:
    if value is None:
        return platformdirs.user_cache_path("oneglance")
    path = Path(value).expanduser()
    if not path.is_absolute():
        raise ParameterError(
            f"{CACHE_VARIABLE} = {value!r} cannot be used; it must be an absolute path."
        )
    if path.exists() and not path.is_dir():
        raise ParameterError(f"{CACHE_VARIABLE} = {value!r} is not a folder; name a folder.")
    return path
