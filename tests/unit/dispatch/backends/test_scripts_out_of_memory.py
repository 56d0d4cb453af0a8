"""A full Redis refuses scripts that write, but those that say they may go on. Only new tasks are refused."""

import re

import pytest

from backends.redis.client import assemble, lua_folder, lua_texts

WRITES = re.compile(r"redis\.call\('(SET|HSET|HINCRBY|ZADD|SADD|INCR|XADD|SETRANGE|BITFIELD)'")
GOES_ON, REFUSED = "#!lua flags=allow-oom\n", "#!lua\n"


def scripts() -> list[tuple[str, str]]:
    found = []
    for package in ("backends.redis", "quotas"):
        texts = lua_texts(lua_folder(package), lua_folder("backends.redis"))
        for file, text in lua_texts(lua_folder(package)).items():
            if not text.startswith("-- library"):
                name = file.removesuffix(".lua")
                found.append((name, assemble(name, texts)))
    return sorted(found)


@pytest.mark.parametrize(("name", "text"), scripts(), ids=[name for name, _ in scripts()])
def test_what_is_under_way_goes_on_and_new_tasks_are_refused(name: str, text: str) -> None:
    if name == "admit":
        assert text.startswith(REFUSED)
    elif WRITES.search(text):
        assert text.startswith(GOES_ON)
    assert "#!" not in text[2:]
