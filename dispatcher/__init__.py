"""The core without servers: types, scheduling, verdicts and life cycles; no network, environment or wall clock."""

from dispatcher.public_names import warn_of_imports_from

warn_of_imports_from("dispatcher")
