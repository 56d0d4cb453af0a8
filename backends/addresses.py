"""Server addresses that keep where they were configured, and the errors for missing ones."""

from collections.abc import Iterable
from typing import Any, Self

from pydantic import ValidatorFunctionWrapHandler

from dispatcher.model.errors import NotConfigured, Unreachable
from dispatcher.model.shown import bare, hide_in, without_credentials


class Address(str):
    """A server's address, without white space around it. Its repr hides credentials, and so does all of the process."""

    __slots__ = ("source", "stopped")

    source: str
    """Where it was configured, such as "from the environment"; empty if the program itself gave it."""
    stopped: bool
    """Whether it is the address of a local stack's server that has ended. Any server that answers there now is another
    program."""

    def __new__(cls, text: str, source: str = "", *, stopped: bool = False) -> Self:
        address = super().__new__(cls, hide_in(bare(text)))
        address.source, address.stopped = source, stopped
        return address

    def __repr__(self) -> str:
        return repr(without_credentials(str(self)))

    def named(self) -> str:
        """Return the address without credentials, and where it was configured, for messages."""
        address = without_credentials(str(self))
        return f"{address} ({self.source})" if self.source else address


def as_address(value: Any, validate: ValidatorFunctionWrapHandler) -> Address:
    """Validate the text of an address; its source is kept."""
    text = validate(bare(value) if type(value) is str else value)
    return value if isinstance(value, Address) and value == text else Address(text)


def as_given(text: str) -> Address:
    """Return the address, whether its server runs or not."""
    return text if isinstance(text, Address) else Address(text)


def usable(server: str, text: str | None, missing: Iterable[tuple[str, str]]) -> Address:
    """Return the address of a server. Raise NotConfigured, naming all missing settings, if there is none; Unreachable
    if the server has ended."""
    if text is None:
        raise not_configured(missing)
    address = as_given(text)
    if address.stopped:
        raise Unreachable(f"{server} of the local stack ({address}) is not running.", "Run `fairlane stack up`.")
    return address


def not_configured(missing: Iterable[tuple[str, str]]) -> NotConfigured:
    """Return the error for settings without a value: (server, setting), as in ("Redis", "redis.url")."""
    pairs = list(missing)
    servers, settings = list(dict.fromkeys(server for server, _ in pairs)), [setting for _, setting in pairs]
    variables = [f"FAIRLANE_{setting.upper().replace('.', '_')}" for setting in settings]
    return NotConfigured(
        f"{_listed(servers)} {_be(servers)} not configured: {_listed(settings)} {_be(settings)} not set, and no local "
        "stack is up.",
        f"Run `fairlane stack up`, or set {_listed(variables)}.",
    )


def _be(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _listed(names: list[str]) -> str:
    """Join names, as in "a, b and c"."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
