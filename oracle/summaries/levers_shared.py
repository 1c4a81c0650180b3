"""Tables of one deployment that several tenants share: what to set for all of them, and what that costs each."""

import math
from collections.abc import Sequence
from typing import Any

from oracle.levers.advised import NOISE, set_in
from oracle.levers.answer import Answer
from oracle.levers.procedure import Configuration
from oracle.levers.shared import Shared
from oracle.summaries.levers_admission import configured, paid, typed
from oracle.summaries.levers_sentences import spanned, unsettled
from oracle.summaries.shares import amount, part, percent, several
from oracle.tables import Column, Table, number, words


def shared_tables(found: Shared, answers: Sequence[tuple[str, Answer]]) -> list[Table]:
    """Give the page of a shared deployment and its tenants."""
    return [_page(found, answers), _tenants(found, answers)]


def shared_setting(found: Shared) -> str:
    """Say what to set for all tenants; before it, what counting the experts of a step would set, where another."""
    other = found.counted
    if other is None or _levers(found) == _levers(other):
        return _priced(found)
    return unsettled(found.deployment, found.batch, _priced(other), _priced(found))


def _levers(found: Shared) -> tuple[Configuration, bool]:
    return found.configuration, found.cap is not None


def _priced(found: Shared) -> str:
    capped = "" if found.cap is None else f"admit at most {found.cap:g} together: "
    price = found.deployment.price_per_hour
    money = "" if price is None else f", {paid(found.cost_ms, price)}"
    return f"{capped}{configured(found.deployment, found.configuration)}: {found.cost_ms:.5f} ms a token{money}"


def _page(found: Shared, answers: Sequence[tuple[str, Answer]]) -> Table:
    deployment, C = found.deployment, float(found.mixed.concurrency)
    facts: list[dict[str, Any]] = [
        {
            "fact": "set",
            "value": shared_setting(found),
            "setting": {
                **typed(deployment, found.configuration),
                "cap": found.cap,
                "draft_length": deployment.speculation.draft_length if found.configuration.speculation_on else None,
                "cost_ms": found.cost_ms,
            },
        },
        {"fact": "together", "value": _together(found)},
        {"fact": "admission", "value": _admission(found)},
        {"fact": "apart", "value": _apart(found, answers)},
        {"fact": "flips with concurrency", "value": _flips(found), "ranges": _typed_flips(found)},
        {"fact": "weights", "value": _weights(found)},
        {
            "fact": "from",
            "value": "a closed-form model: the batch holds tenants as their requests in flight do, with the mean "
            "context; levers are the same for all, and who waits for whom is not counted",
        },
    ]
    title = f"One deployment shared by {len(answers)} tenants: {several(C, 'request')} in flight together"
    return Table("levers_shared", title, (words("", "fact"), words("", "value", most=600)), facts)


def _together(found: Shared) -> str:
    C, mixed = float(found.mixed.concurrency), found.mixed
    admitted = "the cap admits" if found.cap is not None else "the KV cache holds"
    bound = (
        f"all {amount(C)} decode together" if found.batch >= C else f"{admitted} {amount(found.batch)} of {amount(C)}"
    )
    return (
        f"{bound}; of all prompt tokens {float(mixed.prefix_share):.3f} are shared, the mean context is "
        f"{float(mixed.context_tokens):,.0f} tokens"
    )


def _admission(found: Shared) -> str:
    if found.cap is not None:
        dearer = percent(found.uncapped_ms / found.cost_ms - 1)
        return (
            f"without a cap: {configured(found.deployment, found.uncapped)}: {found.uncapped_ms:.5f} ms a token, "
            f"{dearer} dearer; requests beyond the cap wait, which this cost does not count"
        )
    if found.saved:
        return (
            f"not capped; a cap would save {percent(found.saved)}, under the {100 * NOISE:g} % that stated "
            "coefficients can carry"
        )
    return "as many requests as there are and fit: a cap would not lower the cost"


def _apart(found: Shared, answers: Sequence[tuple[str, Answer]]) -> str:
    """Compare with a deployment for each."""
    ms = sum(
        share.tokens * float(set_in(each)[0].cost_ms) for share, (_, each) in zip(found.tenants, answers, strict=True)
    )
    more = percent(abs(found.cost_ms / ms - 1))
    word = "dearer" if found.cost_ms > ms else "cheaper"
    return (
        f"on {len(answers)} deployments of their own {ms:.5f} ms a token, so shared is {more} {word} a token; the "
        "machine time is that of the tokens only, what stands idle on a deployment is not counted"
    )


def _flips(found: Shared) -> str:
    named = [configured(found.deployment, run.configuration) for run in found.by_concurrency]
    if len(named) == 1:
        return f"nowhere: {named[0]} throughout, not capped"
    said = "; ".join(
        f"{spanned(run.low, run.high, ',.0f')}: {name}" for run, name in zip(found.by_concurrency, named, strict=True)
    )
    return f"{said}; requests of all tenants, in the same shares, not capped"


def _typed_flips(found: Shared) -> list[dict[str, Any]]:
    return [
        {
            "low": run.low,
            "high": None if math.isinf(run.high) else run.high,
            **typed(found.deployment, run.configuration),
        }
        for run in found.by_concurrency
    ]


def _weights(found: Shared) -> str:
    if found.by_tokens:
        return "tenants count by the tokens given"
    return "tenants count by their requests in flight, for no tokens were given"


def _tenants(found: Shared, answers: Sequence[tuple[str, Answer]]) -> Table:
    rows = []
    for share, (name, alone) in zip(found.tenants, answers, strict=True):
        own = float(set_in(alone)[0].cost_ms)
        rows.append({"name": name, **vars(share), "own_ms": own, "over_own": share.cost_ms / own - 1})
    set_all = found.configuration
    columns = (
        words("tenant", "name"),
        number("% of\nrequests", "requests", ".1f", 100),
        number("% of\ntokens", "tokens", ".1f", 100),
        number("ms/token\nshared", "cost_ms", ".5f"),
        number("on its\nown", "own_ms", ".5f"),
        part("shared,\n% dearer", "over_own", "+.1f", 100),
        number("r - r*", "repetitiveness_margin", ".3f"),
        number("rho - rho*", "prefix_share_margin", ".3f"),
        Column("the common levers", lambda row: _suits(set_all, row), text=True),
    )
    notes = (
        f"r* and rho* at {found.deployment.precisions[set_all.precision].name} and the "
        f"{several(found.batch, 'request')} that decode together: where a margin is negative the lever costs this "
        "tenant more than it saves",
    )
    return Table("levers_shared_tenants", "What the common setting costs each tenant", columns, rows, notes)


def _suits(each: Configuration, row: Any) -> str:
    wrong = [
        f"{name} would be {'on' if pays else 'off'}"
        for name, on, pays in (
            ("speculation", each.speculation_on, row["repetitiveness_margin"] > 0),
            ("prefix cache", each.cache_on, row["prefix_share_margin"] > 0),
        )
        if on != pays
    ]
    return "right for it" if not wrong else f"for it alone {', '.join(wrong)}"
