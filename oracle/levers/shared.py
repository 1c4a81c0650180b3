"""One deployment for several tenants: one batch, one precision and one state of each lever for all of them.

Requests of tenant i are a share s_i = C_i / C of those in flight, and of every batch. What a step costs depends on the
batch B they fill together, and on the mean context c = Σ s_i c_i of its requests; a token of tenant i costs what its
request takes of the steps it is in. With w_i, the share of tokens that are tenant i's, a token costs

    Σ w_i cost_i(p, s, k; B),    cost_i at the tenant's own r, rho, prompt and output, and at the mean context.

w_i follows from the tokens that are given, whatever their unit; where none are given, w_i = s_i. It is the same under
every configuration, though of two tenants in one batch the one whose drafts are accepted emits more.

The KV cache holds the requests of the mean context. Who gets in is not modelled: the mix of the batch is that of the
requests in flight.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oracle.errors import InputError
from oracle.levers.advised import NOISE
from oracle.levers.answer import MOST_CONCURRENCY
from oracle.levers.break_even import prefix_share_needed, repetitiveness_needed
from oracle.levers.cost import capacity, cost_parts
from oracle.levers.deployment import Deployment, Precision
from oracle.levers.experts import experts_counted
from oracle.levers.procedure import Configuration, configurations
from oracle.levers.regime import Numbers, Regime
from oracle.levers.traffic_file import Traffic


@dataclass(frozen=True)
class Curve:
    """Cost per token of one configuration for all tenants together.

    Attributes
    ----------
    configuration
        Levers, the same for all.
    cost_ms : (n,) float64
        Mean over tokens, at B = 1 … n requests decoding together; n is what the KV cache holds, or what was looked at.
    """

    configuration: Configuration
    cost_ms: Numbers


@dataclass(frozen=True)
class SharedRun:
    """A range of requests in flight of all tenants together, both ends included, with the cheapest configuration."""

    low: float
    high: float
    configuration: Configuration


@dataclass(frozen=True)
class TenantShare:
    """One tenant on the shared deployment.

    Attributes
    ----------
    requests, tokens
        Its shares of the requests in flight and of the tokens.
    cost_ms
        Of its tokens in the shared setting.
    repetitiveness_margin, prefix_share_margin
        Its r and rho above the break-evens at the shared precision and batch; negative: the lever costs it more.
    """

    requests: float
    tokens: float
    cost_ms: float
    repetitiveness_margin: float
    prefix_share_margin: float


@dataclass(frozen=True)
class Shared:
    """What to set in one deployment for all tenants.

    Attributes
    ----------
    deployment, mixed
        What was asked; `mixed` is the regime of a mean request, with all of them in flight.
    by_tokens
        Whether tokens were given, so that tenants count by them; else they count by requests in flight.
    configuration, batch, cap, cost_ms
        What to set; no cap is None.
    saved
        Share of the cost that the best cap saves, advised or not.
    uncapped, uncapped_ms
        The cheapest configuration without a cap, and its cost.
    tenants
        One a tenant, in order.
    curves
        Every configuration that fits.
    by_concurrency
        Where the cheapest without a cap changes as all tenants grow or shrink alike.
    counted
        The same with the experts counted that a pass goes to, where the batch calls for it; else None.
    """

    deployment: Deployment
    mixed: Regime
    by_tokens: bool
    configuration: Configuration
    batch: float
    cap: float | None
    cost_ms: float
    saved: float
    uncapped: Configuration
    uncapped_ms: float
    tenants: tuple[TenantShare, ...]
    curves: tuple[Curve, ...]
    by_concurrency: tuple[SharedRun, ...]
    counted: "Shared | None" = None


def share_deployment(deployment: Deployment, tenants: Sequence[Regime], tokens: Sequence[float] | None) -> Shared:
    """Find the cheapest common setting.

    Parameters
    ----------
    tenants
        One regime each, of shape ().
    tokens
        Of each tenant, in any unit: only their ratios count. None: tenants count by requests in flight, w_i = s_i.

    Raises
    ------
    InputError
        At no precision does one mean request fit.
    """
    requests = np.array([float(each.concurrency) for each in tenants])
    given = requests if tokens is None else np.asarray(tokens, dtype=np.float64)
    s, w = requests / requests.sum(), given / given.sum()
    mixed = _mixed(tenants, s, float(requests.sum()))
    context = float(mixed.context_tokens)
    apart = [each.having(context_tokens=context) for each in tenants]
    curves = _curves(deployment, apart, w, mixed)
    C = float(mixed.concurrency)
    at_once = [_at_once(deployment, each, apart, w, C) for each in curves]
    best = int(np.argmin(at_once))
    least = [min(now, float(each.cost_ms[: int(C)].min())) for now, each in zip(at_once, curves, strict=True)]
    capped = int(np.argmin(least))
    saved = max(1 - least[capped] / at_once[best], 0.0)
    chosen, cost = curves[best], at_once[best]
    batch, cap = min(C, float(len(chosen.cost_ms))), None
    if saved >= NOISE:
        chosen, cost = curves[capped], least[capped]
        batch = cap = float(np.argmin(chosen.cost_ms[: int(C)])) + 1
    return Shared(
        deployment,
        mixed,
        tokens is not None,
        chosen.configuration,
        batch,
        cap,
        cost,
        saved,
        curves[best].configuration,
        at_once[best],
        tuple(_tenants(deployment, chosen.configuration, apart, batch, (s, w))),
        curves,
        _by_concurrency(curves),
    )


def shared_by(deployment: Deployment, traffic: Sequence[Traffic]) -> Shared:
    """Find the cheapest common setting of tenants that state one regime each.

    Tenants count by their tokens where a traffic file gives them, which it does for all or for none.
    """
    given = [float(each.tokens[0]) for each in traffic if each.tokens is not None]
    regimes = [each.regime.at(0) for each in traffic]
    found = share_deployment(deployment, regimes, given or None)
    grown = experts_counted(deployment, found.batch)
    return found if grown is None else replace(found, counted=share_deployment(grown, regimes, given or None))


def _mixed(tenants: Sequence[Regime], s: Numbers, C: float) -> Regime:
    """Give the regime of the mean request; its prefix share is that of all prompt tokens."""

    def mean(name: str) -> float:
        return float(np.sum(s * [float(getattr(each, name)) for each in tenants]))

    cached = float(np.sum(s * [float(each.prefix_share * each.prompt_tokens) for each in tenants]))
    chained = {} if tenants[0].autocorrelation is None else {"autocorrelation": mean("autocorrelation")}
    return tenants[0].having(
        concurrency=C,
        prefix_share=cached / mean("prompt_tokens"),
        repetitiveness=mean("repetitiveness"),
        **{name: mean(name) for name in ("prompt_tokens", "output_tokens", "context_tokens")},
        **chained,
    )


def _curves(deployment: Deployment, tenants: Sequence[Regime], w: Numbers, mixed: Regime) -> tuple[Curve, ...]:
    """Price every configuration at every batch that fits."""
    found = []
    for each in configurations(deployment):
        precision = deployment.precisions[each.precision]
        full = int(min(float(capacity(deployment, precision, mixed, each.cache_on)), MOST_CONCURRENCY))
        if full < 1:
            continue
        B = np.arange(1, full + 1, dtype=np.float64)
        found.append(Curve(each, _cost(deployment, precision, each, tenants, w, B)))
    if not found:
        raise InputError(
            f"no precision can be used for all tenants together: one request of {float(mixed.context_tokens):g} tokens "
            "of context, their mean, does not fit; give more memory, a lower precision or shorter contexts"
        )
    return tuple(found)


def _cost(
    deployment: Deployment, precision: Precision, each: Configuration, tenants: Sequence[Regime], w: Numbers, B: Numbers
) -> Numbers:
    costs = [
        cost_parts(deployment, precision, tenant.having(concurrency=B), each.toggles, B).total_ms for tenant in tenants
    ]
    return np.asarray(np.sum(w[:, None] * np.stack(costs), axis=0))


def _at_once(deployment: Deployment, curve: Curve, tenants: Sequence[Regime], w: Numbers, C: float) -> float:
    """Price one configuration with all requests in flight, a mean that need not be whole, as far as they fit."""
    each, B = curve.configuration, np.array([min(C, float(len(curve.cost_ms)))])
    return float(_cost(deployment, deployment.precisions[each.precision], each, tenants, w, B)[0])


def _tenants(
    deployment: Deployment,
    each: Configuration,
    tenants: Sequence[Regime],
    batch: float,
    shares: tuple[Numbers, Numbers],
) -> list[TenantShare]:
    precision, B = deployment.precisions[each.precision], np.array(batch)
    return [
        TenantShare(
            float(s),
            float(w),
            float(cost_parts(deployment, precision, tenant, each.toggles, B).total_ms),
            float(tenant.repetitiveness - repetitiveness_needed(deployment, precision, tenant, B)),
            float(tenant.prefix_share - prefix_share_needed(deployment, precision, tenant, B)),
        )
        for tenant, s, w in zip(tenants, *shares, strict=True)
    ]


def _by_concurrency(curves: Sequence[Curve]) -> tuple[SharedRun, ...]:
    """Scan the requests in flight; a curve is flat where its KV cache is full."""
    full = max(len(each.cost_ms) for each in curves)
    at = np.arange(full)
    cheapest = np.argmin([each.cost_ms[np.minimum(at, len(each.cost_ms) - 1)] for each in curves], axis=0)
    starts = [0, *(np.flatnonzero(np.diff(cheapest)) + 1).tolist()]
    ends = [*(float(start) for start in starts[1:]), math.inf]
    return tuple(
        SharedRun(float(start + 1), end, curves[int(cheapest[start])].configuration)
        for start, end in zip(starts, ends, strict=True)
    )
