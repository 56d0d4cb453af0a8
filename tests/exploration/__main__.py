"""`python -m tests.exploration NAME` explores one variant; with numbers behind it, those steps are shown one by one."""

import sys

from tests.exploration.search import explore, replay
from tests.exploration.variants import BROKEN, DEEP, VARIANTS


def main(name: str, *places: str) -> None:
    variant = next(variant for variant in (*VARIANTS, *DEEP, *BROKEN) if variant.name == name)
    if not places:
        print(explore(variant).report())
    for number, (step, world) in enumerate(replay(variant, places), 1):
        print(f"{number:2}. {step}\n      {world}")


if __name__ == "__main__":
    main(*sys.argv[1:])
