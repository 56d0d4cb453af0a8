"""Load YAML that people write."""

from itertools import chain
from typing import Final

import yaml

_MAX_LEVELS: Final = 64
_MAX_VALUES: Final = 1_000_000
"""The number of values in a document, each counted wherever an alias repeats it."""


class BoundedLoader(yaml.SafeLoader):
    """A YAML loader that refuses deep nesting, and aliases that make millions of values or put a value into itself."""

    def get_single_node(self) -> yaml.Node | None:
        """Return the document's root. Raises yaml.YAMLError."""
        root = super().get_single_node()
        if root is not None and _values(root, {}) > _MAX_VALUES:
            raise yaml.YAMLError(f"it has more than {_MAX_VALUES:,} values, with those that aliases repeat")
        return root

    def fetch_flow_collection_start(self, kind: type[yaml.Token]) -> None:
        """Begin `[` or `{`. The scanner's time grows with the square of the open ones."""
        self._check_levels(self.flow_level)
        super().fetch_flow_collection_start(kind)

    def add_indent(self, column: int) -> bool:
        """Begin an indented block."""
        self._check_levels(len(self.indents))
        return super().add_indent(column)

    @staticmethod
    def _check_levels(levels: int) -> None:
        if levels > _MAX_LEVELS:
            raise yaml.YAMLError(f"it is nested deeper than {_MAX_LEVELS} levels")


def _values(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Return the number of values in a node. known: those of nodes counted before."""
    if node not in known:
        known[node] = _MAX_VALUES  # a node within itself has no end
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = chain.from_iterable(inner) if isinstance(node, yaml.MappingNode) else inner
        known[node] = 1 + sum(_values(part, known) for part in parts)
    return known[node]
