"""The outcomes of a log as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast._safe_text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karl_fast._core import OutcomeFacts

CORRELATIONS_SHOWN = 6
BY_LENGTH = 0.7
"""A component with a correlation of this size with the length of the conversation is explained by it."""
FEWEST = 10
"""Rows from which a correlation with the length is worth a warning."""


def describe_outcomes(outcomes: OutcomeFacts | None) -> Iterator[str]:
    """Yield the table of components: known rows, mean, and correlation with the length of the conversation."""
    if outcomes is None:
        return
    yield f"outcomes  {outcomes['rows_known']:,} of {counted(outcomes['rows'], 'row')} with a known component"
    if outcomes["components"]:
        yield f"  {'component':<12}{'known':>10}{'mean':>8}{'with length':>13}"
    for component in outcomes["components"]:
        numbers = f"{component['known']:>10,}{component['mean']:>8.3f}"
        constant = "constant" if component["constant"] else ""
        length = f"{component['length'][1]:+.2f}" if component["length"] else "-"
        yield f"  {component['name']:<12}{numbers}{length:>13}  {constant}".rstrip()
    strongest = sorted(outcomes["correlations"], key=lambda pair: -abs(pair["correlation"]))
    for pair in strongest[:CORRELATIONS_SHOWN]:
        first, other = pair["components"]
        yield f"  {first} with {other}: {pair['correlation']:+.2f} in {counted(pair['rows'], 'row')}"


def warn_about_outcomes(outcomes: OutcomeFacts | None) -> Iterator[str]:
    """Yield a warning for each component that carries no signal, or that the length explains."""
    if outcomes is None:
        return
    if not outcomes["rows_known"]:
        yield "no row has a known component of an outcome: a reward of them would drop every row"
    for component in outcomes["components"]:
        name = f"outcome.{component['name']}"
        if component["constant"]:
            yield f"{name} is {component['mean']:.3g} in all {component['known']:,} rows that have it: it has no signal"
        length = component["length"]
        if length and length[0] >= FEWEST and abs(length[1]) >= BY_LENGTH:
            yield (
                f"{name} follows the length of the conversation (correlation {length[1]:+.2f} in {length[0]:,} rows): "
                "a reward of it selects by length"
            )


def describe_unknown_outcomes(paths: Iterable[str]) -> str:
    """Return why rows have no reward if it is made of outcomes alone; empty if it is not."""
    wanted = list(paths)
    if not wanted or not all(path.startswith("outcome.") for path in wanted):
        return ""
    return f"no evidence for {', '.join(wanted)} was found in them; inspect shows the rows that have each component"
