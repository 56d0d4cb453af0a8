"""Placeholder."""
from fairlane.simulate.result import Result
def page(result: Result) -> str:
    return ""
