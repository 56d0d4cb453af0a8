"""The one door for callers that are not the operator's own programs: it knows who asks, and what that app may do.

HTTP, console and tenants use it and nothing else. No method hands out what belongs to another app.
"""
