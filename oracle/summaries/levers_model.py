"""Tables around an answer about serving levers: procedures, moves, phases, drafts, matches, assumptions, fits."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from oracle.errors import printable
from oracle.levers.advised import advice, set_in
from oracle.levers.answer import Answer, Fitted
from oracle.levers.break_even import phase, precision_ratio
from oracle.levers.cost import capacity
from oracle.levers.deployment import Deployment
from oracle.levers.fitted import FittedOverhead
from oracle.levers.regime import Numbers
from oracle.levers.toggles import InheritedLever, precision_moves
from oracle.summaries.levers import answer_table, break_even_table, cost_table, decisions_row, usable
from oracle.summaries.levers_by_batch import by_batch_table
from oracle.summaries.levers_chains import chains_table, needed_share
from oracle.summaries.levers_identified import identified_table
from oracle.summaries.shares import amounts, part
from oracle.tables import Column, Row, Table, number, with_interval, words

_PHASES = ("below both knees", "between the knees", "above both knees")


def answer_tables(found: Answer, fitted: Fitted | None = None, notes: tuple[str, ...] = ()) -> list[Table]:
    """Give all tables of one regime, the page first."""
    deployment = found.deployment
    return [
        answer_table(found, notes, outside=fitted is not None and any(each.is_outside for each in fitted.etas)),
        cost_table(found),
        break_even_table(found),
        by_batch_table(found),
        procedure_table(found),
        *([moves_table(deployment, found), phases_table(found)] if len(usable(found)) > 1 else []),
        lengths_table(found),
        chains_table(found),
        assumptions_table(found),
        *fitted_tables(fitted, deployment),
        stated_table(deployment),
    ]


_COMPARED = (
    words("configuration", "configuration"),
    amounts("batch", "batch"),
    number("ms/token", "cost_ms", ".5f"),
)


def procedure_table(found: Answer) -> Table:
    """Compare the ordered procedure in both readings with the joint minimum and the capped one."""
    rows = [
        decisions_row(name, found, each)
        for name, each in (
            ("ordered, literal", found.literal),
            ("ordered, speculation-aware", found.aware),
            ("joint minimum", found.joint),
            ("joint, admission capped", found.capped),
        )
    ]
    columns = (words("procedure", "name"), *_COMPARED, part("regret\n%", "over_joint", ".2f", 100))
    notes = (
        "literal: the precision that decodes cheapest without speculation, then prefix cache, then speculation; aware: "
        "cheapest with the better of the two",
        "regret: above the joint minimum without a cap",
    )
    return Table("levers_procedure", "The source's order against the joint minimum", columns, rows, notes)


def lengths_table(found: Answer) -> Table:
    """Show what is advised for every draft length."""
    stated, advised = found.deployment.speculation.draft_length, advice(found)
    rows = [
        {"draft_length": g, "stated": g == stated, "capped": bool(each.capped)}
        | decisions_row(str(g), found, each.decided)
        | {"over_joint": float(each.decided.cost_ms) / advised.cost_ms - 1}
        for g, each in advised.by_length
    ]
    columns = (
        number("draft\ntokens", "draft_length"),
        *_COMPARED,
        part("% above\nthe stated", "over_joint", ".2f", 100),
        Column("", lambda row: "stated" if row["stated"] else "", text=True),
    )
    again = "all three levers" if advised.cap is None else "all three levers and the cap (the batch)"
    notes = (f"{again} decided again; host work a round is taken as the same for every draft length",)
    return Table("levers_draft_length", "The cheapest configuration by draft length", columns, rows, notes)


def assumptions_table(found: Answer) -> Table:
    """Show the joint minimum under other readings of what the model leaves open."""
    rows = [decisions_row("as stated", found, found.joint)]
    rows += [decisions_row(name, found, each) for name, each in found.by_assumption]
    columns = (
        words("if", "name"),
        *_COMPARED,
        Column("same levers", lambda row: "yes" if row["same"] else "NO", text=True),
    )
    _, cap = set_in(found)
    capped = "" if cap is None else "; without the cap on admission that is advised"
    notes = (f"what the source's model leaves out or could see otherwise, one at a time{capped}",)
    return Table("levers_assumptions", "Does the answer rest on an assumption?", columns, rows, notes)


def moves_table(deployment: Deployment, found: Answer) -> Table:
    """Show what every move between precisions does to the levers that were right before it."""
    rows = [
        {"from": old.name, "to": new.name} | lever_row(lever)
        for old, new, levers in precision_moves(deployment, found.regime)
        for lever in levers
    ]
    return Table(
        "levers_moves",
        "Levers inherited across a change of precision, in this traffic",
        (words("from", "from"), words("to", "to"), *LEVER_COLUMNS),
        rows,
        LEVER_NOTES,
    )


def change_table(levers: Sequence[InheritedLever], before: str, after: str, *, stated: bool = False) -> Table:
    """Show what a change of setting does to the levers that ran before it, as stated or as was right there."""
    return Table(
        "levers_change",
        f"Levers inherited from {printable(before, 200)}, now {printable(after, 200)}",
        LEVER_COLUMNS,
        [lever_row(lever) for lever in levers],
        _STATED_NOTES if stated else LEVER_NOTES,
    )


def lever_row(each: InheritedLever) -> dict[str, Any]:
    """Give one lever before and after a change."""
    return {
        "lever": each.lever,
        "was_on": each.was_on,
        "needed_before": each.before.needed,
        "needed_after": each.after.needed,
        "observed": each.after.observed,
        "gain_before": each.before.gain,
        "gain_after": each.after.gain,
        "invalidated": each.invalidated,
    }


def _verdict(row: Row) -> str:
    if not row["invalidated"]:
        return "stays " + ("on" if row["was_on"] else "off")
    return "SWITCH OFF" if row["was_on"] else "SWITCH ON"


LEVER_COLUMNS = (
    words("lever", "lever"),
    Column("was", lambda row: "on" if row["was_on"] else "off", text=True),
    Column("needed\nbefore", lambda row: needed_share(row["needed_before"])),
    Column("needed\nafter", lambda row: needed_share(row["needed_after"])),
    number("observed", "observed", ".3f"),
    part("% if on,\nbefore", "gain_before", "+.1f", 100),
    part("% if on,\nafter", "gain_after", "+.1f", 100),
    Column("then", _verdict, text=True),
)
LEVER_NOTES = (
    "% if on: what the lever does to its own part of the cost (speculation: decode; prefix cache: prefill and managing "
    "it); was: as its break-even says before the change",
)


_STATED_NOTES = (LEVER_NOTES[0].replace("as its break-even says before the change", "as [running] states"),)


def phases_table(found: Answer) -> Table:
    """Show the gain of every lower precision over every higher one, in its three phases."""
    deployment, regime = found.deployment, found.regime
    rows = []
    for i, j in combinations(usable(found), 2):
        higher, lower = deployment.precisions[i], deployment.precisions[j]
        knees = sorted(float(capacity(deployment, p, regime)) for p in (higher, lower))
        at = {"now": regime, "below": regime.having(concurrency=1.0), "above": regime.having(concurrency=knees[1])}
        ratios = {name: float(precision_ratio(deployment, lower, higher, each)) for name, each in at.items()}
        where = _PHASES[int(phase(deployment, lower, higher, regime))]
        rows.append({"pair": f"{lower.name} / {higher.name}", "knees": knees, "phase": where} | ratios)
    columns = (
        words("decode cost of", "pair"),
        Column("knees", lambda row: " – ".join(f"{knee:,.0f}" for knee in row["knees"])),
        number("below\nboth", "below", ".4f"),
        number("above\nboth", "above", ".4f"),
        number("here", "now", ".4f"),
        words("phase", "phase"),
    )
    notes = (
        "without speculation; between the knees the gain grows with every request, so a wrong concurrency costs "
        "most there",
    )
    return Table("levers_precision", "What a lower precision gains, by concurrency", columns, rows, notes)


def fitted_tables(fitted: Fitted | None, deployment: Deployment) -> list[Table]:
    """Show what was fitted from measurements."""
    if fitted is None:
        return []
    tables = [_eta_table(fitted)] if fitted.etas else []
    if fitted.overhead is not None:
        columns = (
            with_interval("host work\nms/round", "round_host_ms", ".4f"),
            with_interval("verify\nbatch", "verify_batch", ",.1f"),
            number("measured", "n"),
            number("residual\nms", "residual_ms", ".4f"),
            number("speculation\nadds, ms", "added_ms", ".4f"),
        )
        title = "Overhead from measured steps with and without speculation"
        tables.append(Table("levers_overhead", title, columns, [_overhead(fitted.overhead)], _OVERHEAD_NOTES))
    if fitted.chains:
        of_chain = (
            words("precision", "precision"),
            number("first\nposition", "first", ".4f"),
            number("after a\nmatch", "following", ".4f"),
            number("x", "autocorrelation", ".3f"),
        )
        rows = [asdict(each) for each in fitted.chains]
        title = "Autocorrelation of matches from survival by position"
        tables.append(Table("levers_chains", title, of_chain, rows, ("stationary reading",)))
    if fitted.identified:
        tables.append(identified_table(deployment, fitted.identified))
    return tables


_OVERHEAD_NOTES = ("95 %, from what is left over the line; such errors are not part of what is called certain",)


def _overhead(fitted: FittedOverhead) -> dict[str, Any]:
    row = asdict(fitted) | {"is_loose": fitted.is_loose}
    for key, name in (("round_host_ms", "host_interval"), ("verify_batch", "verify_interval")):
        row[f"{key}_low"], row[f"{key}_high"] = row.pop(name) or (None, None)
    return row


def _eta_table(fitted: Fitted) -> Table:
    rows = []
    for each in fitted.etas:
        low, high = each.interval or (None, None)
        rows.append(asdict(each) | {"eta_low": low, "eta_high": high})
    columns = (
        words("precision", "precision"),
        number("acceptance", "acceptance", ".4f"),
        number("rounds", "rounds"),
        with_interval("eta", "eta", ".4f"),
    )
    notes = ["against the widest precision measured; 95 %, binomial, rounds taken as independent"]
    if any(each.is_outside for each in fitted.etas):
        notes.append("an eta above 1 is outside the model, which takes it as 1")
    return Table("levers_eta", "eta from measured acceptance", columns, rows, notes)


def stated_table(deployment: Deployment, chain: Numbers | None = None) -> Table:
    """Echo every parameter of the deployment.

    Parameters
    ----------
    chain
        Autocorrelation of matches in every slot, where traffic states it.
    """
    values = asdict(deployment)
    precisions, how = values.pop("precisions"), values.pop("speculation")
    if chain is not None:
        least, most = float(chain.min()), float(chain.max())
        how |= {"autocorrelation": least if least == most else (least, most)}
    values |= {f"speculation.{key}": value for key, value in how.items()}
    for each in precisions:
        name = each.pop("name")
        values |= {f"{name}.{key}": value for key, value in each.items()}
    rows = [{"parameter": key, "value": value} for key, value in values.items() if value is not None]
    columns = (words("parameter", "parameter"), Column("value", lambda row: _plain(row["value"])))
    return Table("levers_parameters", "Parameters", columns, rows)


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return " – ".join(f"{end:g}" for end in value)
    return f"{value:g}" if isinstance(value, float) else printable(str(value))
