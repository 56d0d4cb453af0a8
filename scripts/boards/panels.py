"""Panels as both boards use them: one style, one data source, the limit of an alert as a dashed line."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models

WINDOW: Final = "2m"
"""Rates cover this: long enough for scrapes every 30 s."""
_SOURCE: Final = "datasource"
_HEIGHT: Final = 8


class Row:
    """A row of panels with a title."""

    def __init__(self, title: str, *panels: Builder[models.Panel]) -> None:
        self.title, self.panels = title, panels


def board(title: str, uid: str, about: str, rows: Sequence[Row]) -> models.Dashboard:
    """Return a board with a variable for the data source."""
    made = (
        builders.Dashboard(title)
        .uid(uid)
        .description(about)
        .tags(["fairlane"])
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .refresh("10s")
        .time("now-1h", "now")
        .with_variable(builders.DatasourceVariable(_SOURCE).label("Prometheus").type("prometheus"))
    )
    for row in rows:
        made = made.with_row(builders.Row(row.title))
        for panel in row.panels:
            made = made.with_panel(panel)
    dashboard = made.build()
    for index, part in enumerate(dashboard.panels or (), 1):
        part.id_val = index
    return dashboard


def lines(
    title: str,
    about: str,
    queries: str | Mapping[str, str],
    *,
    unit: str = "short",
    span: int = 8,
    limit: float | None = None,
    low: bool = False,
) -> Builder[models.Panel]:
    """Return a panel with a line for each series.

    queries: expressions by the text of their legends, in which {{label}} is filled in. The legend of a single one has
    the labels that it is grouped by. limit: of an alert, in `unit`; low: what is below it is bad.
    """
    expressions = {_legend(queries): queries} if isinstance(queries, str) else queries
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about)
        .unit(unit)
        .span(span)
        .height(_HEIGHT)
        .min(0)
        .datasource(_reference())
        .fill_opacity(8)
        .show_points(common.VisibilityMode.NEVER)
        .legend(
            common_builders.VizLegendOptions()
            .show_legend(show_legend=True)
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
        )
        .tooltip(
            common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
    )
    for index, (legend, expr) in enumerate(expressions.items()):
        panel = panel.with_target(_target(expr, legend, chr(ord("A") + index)))
    if limit is None:
        return panel
    style = common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(_limit(limit, low=low)).thresholds_style(style)


def number(
    title: str, about: str, expr: str, *, limit: float | None = None, low: bool = False
) -> Builder[models.Panel]:
    """Return a panel with the present number. It is red at and above `limit`; low: below it."""
    panel = (
        stat.Panel()
        .title(title)
        .description(about)
        .unit("short")
        .span(4)
        .height(4)
        .datasource(_reference())
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.AREA)
        .with_target(_target(expr))
    )
    return panel if limit is None else panel.thresholds(_limit(limit, low=low))


def states(title: str, expr: str, legend: str, texts: Mapping[int, tuple[str, str]]) -> Builder[models.Panel]:
    """Return a panel with a bar for each series. texts: text and colour of each value."""
    results = {str(value): models.ValueMappingResult(text, colour) for value, (text, colour) in texts.items()}
    return (
        statetimeline.Panel()
        .title(title)
        .description("")
        .span(24)
        .height(_HEIGHT)
        .datasource(_reference())
        .show_value(common.VisibilityMode.AUTO)
        .mappings([models.ValueMap(results)])
        .with_target(_target(expr, legend))
    )


def _limit(limit: float, *, low: bool) -> builders.ThresholdsConfig:
    below, above = ("red", "green") if low else ("green", "red")
    steps = [models.Threshold(None, below), models.Threshold(limit, above)]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _legend(expr: str) -> str:
    grouped = re.search(r"by \(([^)]*)\)", expr)
    labels = grouped[1].split(", ") if grouped else ["instance"]
    return " ".join(f"{{{{{label}}}}}" for label in labels if label != "le")


def _target(expr: str, legend: str = "", name: str = "A") -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).legend_format(legend).range().ref_id(name).datasource(_reference())


def _reference() -> models.DataSourceRef:
    return models.DataSourceRef(type_val="prometheus", uid=f"${{{_SOURCE}}}")
