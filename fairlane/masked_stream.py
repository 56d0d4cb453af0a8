"""Standard error without secrets, also where the interpreter or a library writes to it: tracebacks, warnings."""

from typing import Any, TextIO, cast

from dispatcher.model.shown import without_credentials


def masked(stream: TextIO) -> TextIO:
    """Return a stream that hides secrets in what is written to it, and is otherwise the same."""
    return cast("TextIO", _MaskedStream(stream))


class _MaskedStream:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(without_credentials(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
