"""The exceptions that users meet.

    OneglanceError                 every error of this package that a user can cause or mend
    ├── ParameterError             a parameter has a value that cannot be honoured
    │   └── DeadEndError           the parameters together forbid every token at some position
    ├── UnsupportedError           the combination asked for cannot be done exactly, or not at all
    ├── CheckpointError            a model file is missing, truncated, corrupt or of an unknown kind
    ├── DownloadError              a model could not be fetched from any of its sources
    ├── EndpointError              a server cannot be reached, or does not speak the API
    ├── CapacityError              the prompt or batch does not fit the context or the cache
    └── ServiceError               a request that was in order was not answered, or not to its end
        ├── OverloadError          too many requests wait already; a later attempt may succeed
        ├── DrainingError          the service takes no new requests, or has ended
        ├── DeadlineError          the request's time was up before its answer had ended
        └── CancelledError         the request was cancelled

Each message is one sentence or two: the bad value, then the remedy.
"""


class OneglanceError(Exception):
    """Base of every error that a user can cause or mend."""


class ParameterError(OneglanceError, ValueError):
    """A parameter has a value that cannot be honoured."""


class DeadEndError(ParameterError):
    """Bans, limits and logits processors together forbid every token at some position."""


class UnsupportedError(OneglanceError):
    """The combination asked for cannot be done exactly, or not at all; the message says why."""


class CheckpointError(OneglanceError):
    """A model file is missing, truncated, corrupt or of a kind that is not supported."""


class DownloadError(OneglanceError):
    """A model could not be fetched from any of its sources."""


class EndpointError(OneglanceError):
    """A server cannot be reached, refuses the key, or does not speak the API."""


class CapacityError(OneglanceError):
    """A prompt or batch does not fit the context length or the key-value cache."""


class ServiceError(OneglanceError):
    """A request that was in order was not answered, or not to its end."""


class OverloadError(ServiceError):
    """Too many requests wait already; a later attempt may succeed."""


class DrainingError(ServiceError):
    """The service takes no new requests, or has ended."""


class DeadlineError(ServiceError):
    """The request's time was up before its answer had ended."""


class CancelledError(ServiceError):
    """The request was cancelled."""
