"""Workers of two versions: only those whose form the view has serve it."""

import re

import pytest

from backends.redis.client import assemble, lua_folder, lua_texts
from dispatcher.model.view import WorkerBeat
from dispatcher.model.view_form import FORM, ViewRole, judge
from tests import records


def beat(form: int, state: str = "serving", version: str = "0.1.0") -> WorkerBeat:
    return records.beat(f"w-{form}", state, form=form, version=version)


@pytest.mark.parametrize(
    ("form", "beats", "standing"),
    [
        (None, [], ViewRole.SERVE),
        (FORM, [], ViewRole.SERVE),
        (FORM, [beat(FORM), beat(FORM + 1, "standby")], ViewRole.SERVE),
        (FORM + 1, [], ViewRole.STAND_BY),
        (FORM - 1, [], ViewRole.REBUILD),
        (FORM - 1, [beat(FORM, "standby")], ViewRole.REBUILD),
        (FORM - 1, [beat(FORM - 1, "stopped"), beat(FORM - 1, "lost")], ViewRole.REBUILD),
        (FORM, [beat(FORM), beat(FORM - 1, "standby")], ViewRole.SERVE),
        *(
            (form, [beat(FORM), beat(FORM - 1, state)], ViewRole.STAND_BY)
            for state in ("starting", "serving", "draining", "suspect")
            for form in (None, FORM - 1, FORM)
        ),
        (FORM - 1, [beat(0, version="")], ViewRole.STAND_BY),
    ],
)
def test_a_view_is_served_by_workers_of_its_form_and_raised_when_no_older_one_is_there(
    form: int | None, beats: list[WorkerBeat], standing: ViewRole
) -> None:
    judged = judge(form, beats)
    assert judged.role is standing
    assert bool(judged.why) is (standing is not ViewRole.SERVE)


def test_the_older_workers_are_named() -> None:
    assert "stop w-1 (0.1.0), w-0 (no version)" in judge(1, [beat(1), beat(0, version="")]).why


def test_the_scripts_keep_the_same_form() -> None:
    text = assemble("begin_epoch", lua_texts(lua_folder("backends.redis")))
    assert re.findall(r"^local FORM = (\d+)$", text, re.MULTILINE) == [str(FORM)]
