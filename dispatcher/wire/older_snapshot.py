"""Clean the snapshots of an older version, which stored values unchecked."""

from collections.abc import Callable, Iterable, Iterator

from dispatcher.model.errors import Malformed
from dispatcher.model.service_settings import Setting
from dispatcher.model.task_control import CONTROLS, Control
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import FORMAT, ControlChange
from dispatcher.wire.snapshot import Part, SettingsPart, TaskPart

_CONTROLS = {(kind.stored_in or name).encode(): name for name, kind in CONTROLS.items()}


def checked(parts: Iterable[Part]) -> list[Part]:
    """Return the parts without invalid controls and settings, and without tasks whose record is invalid. The control
    topic is read again afterwards, which fills the gaps."""
    return [sound for part in parts if (sound := _checked(part)) is not None]


def _checked(part: Part) -> Part | None:
    match part:
        case TaskPart():
            return _task(part)
        case SettingsPart():
            fields = dict(_pairs(part.fields))
            settings = {name: text for name, text in fields.items() if not name.startswith((b"pos|", b"pauses|"))}
            invalid = {name for name, text in settings.items() if not _is_sound(name, text)}
            return SettingsPart(_without(fields, invalid | {b"pos|" + name for name in invalid}))
        case _:
            return part


def _task(part: TaskPart) -> TaskPart | None:
    fields = dict(_pairs(part.fields))
    try:
        if b"record" in fields:
            read_control("", fields[b"record"])
    except Malformed:
        return None
    invalid = {name for name in _CONTROLS.keys() & fields.keys() if not _is_valid(part.task, name, fields[name])}
    if not invalid:
        return part
    # Without the position of its record, the record gives the controls their initial values again.
    gone = invalid | {f"{_CONTROLS[name]}_pos".encode() for name in invalid} | {b"record_pos"}
    return TaskPart(part.task, part.kept_ms, _without(fields, gone))


def _is_valid(task: str, name: bytes, text: bytes) -> bool:
    return _parses(lambda: Control.parse(ControlChange(FORMAT, task, _CONTROLS[name], text.decode(), 0)))


def _is_sound(name: bytes, text: bytes) -> bool:
    return _parses(lambda: Setting.parse(name.decode(), text.decode()))


def _parses(parse: Callable[[], object]) -> bool:
    try:
        parse()
    except (Malformed, UnicodeDecodeError):
        return False
    return True


def _pairs(words: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(words[::2], words[1::2], strict=True)


def _without(fields: dict[bytes, bytes], gone: set[bytes]) -> list[bytes]:
    return [word for name, text in fields.items() if name not in gone for word in (name, text)]
