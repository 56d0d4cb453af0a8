"""Standard error: the program's log as text or JSON lines, and no secrets in what anybody writes there."""

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO, cast

from dispatcher.model.shown import escaped, masked_document, without_credentials

if TYPE_CHECKING:
    from fairlane.setting_groups import LogSettings

PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
MAX_LINES = 100
WINDOW_S = 60


class JsonFormatter(logging.Formatter):
    """Format each message as one JSON object: time, level, logger, message, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {name: value for name, value in record.__dict__.items() if name not in PLAIN}
        line = {
            "time": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **extra,
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(
            masked_document(line, without_credentials), default=lambda value: without_credentials(str(value))
        )


class TextFormatter(logging.Formatter):
    """Format time (UTC), level, logger and message on one line; a traceback follows on its own lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 -- logging's
        return _utc(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- logging's
        record.message = escaped(without_credentials(record.message))
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 -- logging's
        return escaped(without_credentials(super().formatException(ei)), lines=True)


class LineLimit(logging.Filter):
    """Limit each line of code to MAX_LINES warnings or errors in WINDOW_S.

    A sender of a million bad messages, or a million failed calls, must not fill the disk. The last message before the
    limit says so.
    """

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[tuple[str, int], tuple[float, int]] = {}
        """By line of code: when its window began, and the number of messages in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record should be logged."""
        if record.levelno < logging.WARNING:
            return True
        where = (record.pathname, record.lineno)
        began_s, lines = self._windows.get(where, (0.0, 0))
        if not 0 <= record.created - began_s < WINDOW_S:
            began_s, lines = record.created, 0
        self._windows[where] = (began_s, lines + 1)
        if lines + 1 == MAX_LINES:
            record.msg = f"{record.msg} (More like this are not logged for {WINDOW_S} s.)"
        return lines < MAX_LINES


def _utc(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z"


def configure_logging(settings: "LogSettings") -> None:
    """Send all loggers to stderr as the settings say. A second call replaces the first configuration."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.json_lines else TextFormatter())
    handler.addFilter(LineLimit())
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    for chatty in ("asyncio", "redis"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # urllib3 warns of each retry of a request; the caller reports the result of the request.
    logging.getLogger("urllib3").setLevel(logging.ERROR)


# ------------------------------------------------------------- tracebacks, warnings
def masked(stream: TextIO) -> TextIO:
    """Return a stream that hides secrets in all that is written to it, and is otherwise the same."""
    return cast("TextIO", _MaskedStream(stream))


class _MaskedStream:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(without_credentials(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
