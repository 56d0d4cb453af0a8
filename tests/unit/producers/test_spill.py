"""The spill: a bounded file, first in, first out."""

import errno
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.model.errors import Refused
from producers.publish import spill as spill_module
from producers.publish.spill import Spill

LIMIT = 64


@given(st.lists(st.one_of(st.none(), st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=4))))
@settings(max_examples=100, deadline=None)
def test_pieces_come_out_as_they_went_in(steps: list[list[bytes] | None]) -> None:
    """None takes a piece, anything else is put."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        kept: list[tuple[int, list[bytes]]] = []
        spill = stack.enter_context(closing(Spill(Path(folder), LIMIT)))
        for number, step in enumerate(steps):
            if step is not None:
                went_in = spill.put(number, step)
                assert went_in or kept or sum(map(len, step)) > LIMIT
                kept += [(number, step)] if went_in else []
            elif kept:
                assert spill.take() == spill.take() == kept.pop(0)
                spill.drop()
            assert len(spill) == len(kept)
            assert spill.size_on_disk <= LIMIT
        assert spill.messages == sum(len(piece) for _, piece in kept)


def test_a_piece_that_never_fits_is_not_taken(tmp_path: Path) -> None:
    with closing(Spill(tmp_path, LIMIT)) as spill:
        assert not spill.put(0, [b"x" * (LIMIT + 1)])
        assert spill.put(0, [b"x" * LIMIT])


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot be written to"):
        Spill(tmp_path / "file", LIMIT)


def test_a_disk_that_is_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill_module, "_write", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with closing(Spill(tmp_path, LIMIT)) as spill:
        with pytest.raises(Refused, match="cannot be written: No space left on device"):
            spill.put(0, [b"x"])
        assert spill.messages == 0
