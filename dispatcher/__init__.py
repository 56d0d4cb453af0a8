"""The core: types, messages, scheduling, verdicts and life cycles.

No network, environment or wall clock belongs here, and no third party but pydantic and msgspec. Servers are in
`backends`, the ledger's rules in `quotas`.
"""
