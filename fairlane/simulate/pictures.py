"""Placeholder."""
from fairlane.simulate.result import Result
def draw(kind: str, result: Result) -> str:
    return ""
