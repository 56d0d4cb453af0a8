"""Workers: who serves what; is the view complete, how far behind are the folds, Redis and Pulsar?"""

import time
from typing import Any

from dispatcher.analysis.served import Served
from fairlane.figures.rows import worker_fields
from web.console.page import Page, Visit


def read(visit: Visit) -> dict[str, Any]:
    desk, now_ms = visit.desks.service, int(time.time() * 1000)
    beats = [beat for beat in desk.client("workers.list").workers() if beat.state != "stopped"]
    served, waiting = Served.by(beats), visit.desks.board.facets({})["channel"]
    rows = [
        worker_fields(beat, now_ms) | {"channels": None if beat.channels is None else sorted(beat.channels)}
        for beat in beats
    ]
    return {
        "rows": rows,
        "late": [beat for beat in beats if beat.unrecorded],
        "serving": sum(beat.state == "serving" for beat in beats),
        "missing": {name: count for name, count in sorted(waiting.items()) if served.trouble(name)},
        "health": desk.health(),
    }


PAGE = Page(name="workers", path="/workers", title="Workers", action="workers.list", read=read, is_of_silence=True)
