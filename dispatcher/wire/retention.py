"""How long records are kept, and the periods that follow from it."""

from dispatcher.model.task import MAX_TTL_S

DAY_MS = 86_400_000
RECORDS_KEPT_MS = 2 * MAX_TTL_S * 1_000
"""How long control, outcome and dead-letter records are kept: twice the longest ttl. So an empty Redis can be rebuilt
with everything that may still be in a lane."""
TOMBSTONE_MS = RECORDS_KEPT_MS + 2 * DAY_MS
"""How long the view and the journal remember an ended task. After that its id may be used again. If it were used
earlier, a rebuild would read the end of the first task with that id, and lose the second task. It is two days longer
than the records are kept, since a broker deletes these ledger by ledger."""
