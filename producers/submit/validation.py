"""Check targets by the slab: a good slab costs a few calls at C speed; only a bad one is checked target by target."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, NamedTuple, cast

import msgspec

from dispatcher.channels.submission.address import AddressForm
from dispatcher.channels.submission.target_check import TargetCheck
from dispatcher.channels.value_texts import are_plain, plain_variables
from dispatcher.model.task import MAX_TARGET_LENGTH, MAX_VARIABLES_BYTES, Target
from dispatcher.wire.checks.nesting import TOO_DEEP, complaint_after_decoding

_GRAPHIC = bytes(range(0x21, 0x7F))
_SEPARATOR = " "
_Address = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TARGET_LENGTH)]
_Addresses = Annotated[list[_Address], msgspec.Meta(min_length=1)]
_SHOWN_LENGTH = 80
_READ_BACK = {str, int, float, bool, NoneType}
"""Types whose values every reader takes. Others are decoded as a worker does it."""
_UNREADABLE = "the variables cannot be read by a worker"
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_TRIMMED = AddressForm()

Variables = dict[str, Any] | None
LineOf = Callable[[int], int]
"""Returns the line to report (1-based place in the audience) for an index in a slab."""


class Unreadable(msgspec.Struct, frozen=True):
    """Marks a target that could not be read (a bad line of a file); it is refused."""

    reason: str
    text: str = ""


class Refusal(msgspec.Struct, frozen=True):
    """A target that was not accepted."""

    line: int
    """Place in the audience, from 1; in a file, the line."""
    reason: str
    """The reason, without values of this target: refusals are grouped by their reasons."""
    target: str
    """The target's address, shortened."""


class Accepted(NamedTuple):
    """Good targets of a slab, in order and in their canonical form."""

    addresses: list[str]
    variables: list[Variables] | None
    """The variables of each target, or None when no target has any."""
    text: bytes
    """The bytes that enter the audience's digest."""


def check_slab(
    slab: Sequence[object], line_of: LineOf, check: TargetCheck | None = None, form: AddressForm = _TRIMMED
) -> tuple[Accepted, list[Refusal]]:
    """Split a slab of strings, Targets, (address, variables) pairs and Unreadables into good and refused ones.

    check, form: those of the task's channel, if it has a check.
    """
    accepted = _plain(slab, form) or _with_variables(slab, form)
    if accepted is None or (check is not None and not check.are_good(accepted.addresses, accepted.variables)):
        return check_each(slab, line_of, check, form)
    return accepted, []


def digest_text(addresses: Sequence[str], variables: Sequence[Variables] | None) -> bytes:
    """Return the bytes of the audience's digest: each address, its variables if any, and a space."""
    if variables is None:
        return (_SEPARATOR.join(addresses) + _SEPARATOR).encode() if addresses else b""
    return b"".join(
        address.encode() + _variables_text(own) + b" " for address, own in zip(addresses, variables, strict=True)
    )


def check_each(
    slab: Iterable[object], line_of: LineOf, check: TargetCheck | None = None, form: AddressForm = _TRIMMED
) -> tuple[Accepted, list[Refusal]]:
    """Split a slab like `check_slab`, but one by one, to find the bad targets and the reasons."""
    addresses: list[str] = []
    variables: list[Variables] = []
    refusals: list[Refusal] = []
    for index, item in enumerate(slab):
        given, own = _parts(item)
        address = form.of(given)
        own, problem = _checked_variables(own)
        reason = item.reason if isinstance(item, Unreadable) else _complaint(address) or problem
        if check is not None and not reason:
            reason = check.complaint(str(address), own)
        if reason:
            refusals.append(Refusal(line_of(index), reason, _shown(item, given)))
        else:
            addresses.append(str(address))
            variables.append(own)
    some = variables if any(variables) else None
    return Accepted(addresses, some, digest_text(addresses, some)), refusals


def _plain(slab: Sequence[object], form: AddressForm) -> Accepted | None:
    """Return the targets of a slab of texts without variables; None if some may be bad or have another type."""
    try:
        addresses = msgspec.convert(slab, _Addresses)
    except msgspec.ValidationError:
        return None
    text = _join_if_good(addresses)
    if text is not None and form.folds_case and (folded := text.decode().lower()) != text.decode():
        text, addresses = folded.encode(), folded.split()
    return None if text is None else Accepted(addresses, None, text)


def _join_if_good(addresses: Sequence[str]) -> bytes | None:
    """Return the digest's text, or None if some address may be bad. Their lengths are already checked."""
    text = _SEPARATOR.join(addresses)
    if not text.isascii():
        return (text + _SEPARATOR).encode() if text.isprintable() and text.count(" ") == len(addresses) - 1 else None
    encoded = text.encode()
    # Without the graphic characters, only the separators and bad characters remain.
    return encoded + b" " if encoded.translate(None, _GRAPHIC) == b" " * (len(addresses) - 1) else None


def _with_variables(slab: Sequence[object], form: AddressForm) -> Accepted | None:
    """Return the targets of a slab of Targets; None if some may be bad or have another type."""
    if set(map(type, slab)) != {Target}:
        return None
    targets = cast("Sequence[Target]", slab)
    plain = _plain([target.address for target in targets], form)
    given = [target.variables for target in targets if target.variables is not None]
    try:
        if plain is None or not are_plain(given) or any(map(_encoding_complaint, given)):
            return None
    except (AttributeError, TypeError, UnicodeEncodeError):  # some are no mappings, or hold no texts
        return None
    addresses, _, text = plain
    variables: list[Variables] = [dict(target.variables) if target.variables else None for target in targets]
    if not any(variables):
        return Accepted(addresses, None, text)
    return Accepted(addresses, variables, digest_text(addresses, variables))


def _parts(item: object) -> tuple[Any, Any]:
    if isinstance(item, Target):
        return item.address, item.variables
    if isinstance(item, tuple) and len(item) == 2:
        return item
    return item, None


def _complaint(address: object) -> str:
    if not isinstance(address, str):
        return f"a target must be text or a Target, not {type(address).__name__}"
    if not address:
        return "the target is empty"
    if len(address) > MAX_TARGET_LENGTH:
        return f"the target is longer than {MAX_TARGET_LENGTH:,} characters"
    if " " in address or not address.isprintable():
        return "the target has whitespace, a control character or one that cannot be printed"
    return ""


def _checked_variables(variables: object) -> tuple[Variables, str]:
    """Return variables as they are accepted, and why they are refused; empty if they are not."""
    if not isinstance(variables, Mapping):
        return None, "" if variables is None else "variables must be a mapping from text to values"
    try:
        accepted = plain_variables(variables)
        return accepted or None, _encoding_complaint(accepted)
    except UnicodeEncodeError:
        return None, "the variables contain text that is not UTF-8: save the file as UTF-8"
    except RecursionError:
        return None, f"{_UNREADABLE}: {TOO_DEEP}"
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        return None, f"the variables cannot be encoded: {error}"


def _encoding_complaint(variables: Mapping[str, Any]) -> str:
    """Return why the variables are too large, or why a worker could not read them; empty if it could."""
    encoded = _encode(variables)
    if len(encoded) > MAX_VARIABLES_BYTES:
        return f"the variables are larger than {MAX_VARIABLES_BYTES:,} bytes (encoded)"
    problem = "" if set(map(type, variables.values())) <= _READ_BACK else complaint_after_decoding(encoded)
    return f"{_UNREADABLE}: {problem}" if problem else ""


def _variables_text(variables: Variables) -> bytes:
    """Return the variables' text for the digest, led by its length, so that no two audiences have the same text."""
    if not variables:
        return b""
    encoded = _encode(variables)
    return b"\t%d:%b" % (len(encoded), encoded)


def _shown(item: object, address: object) -> str:
    text = item.text if isinstance(item, Unreadable) else address if isinstance(address, str) else repr(item)
    escaped = text if text.isprintable() else text.encode("unicode_escape").decode()
    return escaped if len(escaped) <= _SHOWN_LENGTH else escaped[: _SHOWN_LENGTH - 3] + "..."
