"""Exit codes of the command line; errors carry theirs as `exit_code`."""

OK = 0
FAILURE = 1
USAGE = 2
NOT_FOUND = 3
UNREACHABLE = 4
REFUSED = 5
HUNG = 6
INTERRUPTED = 130

MEANINGS = {
    OK: "done",
    FAILURE: "failed, or not finished (a task that did not complete, a check that fails)",
    USAGE: "wrong usage, a value outside its limits, or no servers configured",
    NOT_FOUND: "the task or other thing named does not exist",
    UNREACHABLE: "Pulsar or Redis cannot be reached, or took too long",
    REFUSED: "understood and refused: a conflict or a limit",
    HUNG: "a worker ended itself because a part of it hung",
    INTERRUPTED: "interrupted",
}
