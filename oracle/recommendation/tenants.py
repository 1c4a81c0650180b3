"""Tenants that share batches: what each alone would be told, and whether mixing them changes what they accept."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oracle.acceptance import Acceptance, Curve, StepTimes, mixed
from oracle.errors import InputError, printable
from oracle.intervals import Interval
from oracle.recommendation.answers import NOISE, Against, Recommendation
from oracle.recommendation.arithmetic import few_requests, recommend


@dataclass(frozen=True)
class Tenants:
    """What each tenant alone would be told.

    Attributes
    ----------
    answers
        By tenant; None: requests of which it is not said.
    notes
        How they came about.
    """

    answers: Mapping[str | None, Recommendation]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Mixing:
    """Mean acceptance length at one draft length without and with other tenants in the batch.

    Attributes
    ----------
    tenant
        Whose; None: of the mix as a whole.
    draft_length
        K.
    apart, apart_interval
        A tenant's measured alone; the mix's calculated from those by the tenants' shares of the requests.
    together, together_interval
        Measured while the tenants shared batches.
    change
        Of the length, as a share of `apart`; at equal step times it is the change of the rate.
    """

    tenant: str | None
    draft_length: int
    apart: float
    apart_interval: Interval | None
    together: float
    together_interval: Interval | None
    change: Against


def tenant_name(tenant: str | None) -> str:
    """Write whose requests are meant."""
    return "(none named)" if tenant is None else printable(tenant)


def by_tenant(
    acceptance: Acceptance, mixed_answer: Recommendation, *, noise: float = NOISE, measured_mix: bool = False
) -> Tenants:
    """Answer for each tenant as if all requests were its own, at the step times of the mix.

    Parameters
    ----------
    acceptance
        Of several tenants.
    mixed_answer
        For their mix; its step times are used, since throughput was measured on the mix.
    measured_mix
        Whether the acceptance of the mix was measured, and not calculated from the tenants'.
    """
    ms = {c.draft_length: c.step_ms for c in mixed_answer.candidates if c.step_ms is not None}
    answers: dict[str | None, Recommendation] = {}
    few = []
    for tenant in acceptance.tenants:
        own = acceptance.of(tenant)
        reached = {k: step for k, step in ms.items() if k == 0 or own.at(k) is not None}
        steps = StepTimes(reached, {}, mixed_answer.batch_size, mixed_answer.setting)
        if any(reached):
            answers[tenant] = recommend(own, steps, noise=noise)
            curves = {k: curve for k in reached if k and (curve := own.at(k)) is not None}
            few += [f"{tenant_name(tenant)}: {note}" for note in few_requests(curves)]
    notes = (
        "the mix is the one measured while tenants shared batches, the tenants are those measured alone"
        if measured_mix
        else "the mix weighs tenants by their share of the requests in flight: each does one round a step",
        "step times are one table: a mixed batch touches more experts than one tenant's, so time a mixed one",
        *few,
    )
    return Tenants(answers, notes)


def mixings(
    apart: Acceptance,
    together: Acceptance,
    weights: Mapping[str | None, float] | None = None,
    *,
    noise: float = NOISE,
) -> tuple[list[Mixing], Acceptance]:
    """Set acceptance measured while tenants shared batches beside what each accepts alone.

    Parameters
    ----------
    apart
        Of each tenant's requests alone.
    together
        Of their requests in shared batches: of all of them together, or by tenant.
    weights
        Share of the requests in flight by tenant; None: equal.
    noise
        Relative difference up to which two lengths are a tie.

    Returns
    -------
    The differences at every draft length that both were measured at, and the measured acceptance of the mix.

    Raises
    ------
    InputError
        Tenants that do not agree, weights that do not fit, or no draft length in common.
    """
    named = _check_tenants(apart, together)
    calculated = mixed(apart, weights)
    whole = mixed(together, weights) if named else together
    pairs: list[tuple[str | None, Acceptance, Acceptance]] = []
    if named and len(apart.tenants) > 1:
        pairs = [(tenant, apart.of(tenant), together.of(tenant)) for tenant in apart.tenants]
    pairs.append((None, calculated, whole))
    found = []
    for tenant, alone, shared in pairs:
        for k in sorted({curve.draft_length for curve in (*alone.curves, *shared.curves)}):
            one, other = alone.at(k), shared.at(k)
            # acceptance depends on K itself: the start of a longer draft is another measurement
            if one is not None and other is not None and one.draft_length == other.draft_length == k:
                found.append(_mixing(tenant, k, one, other, noise))
    if not any(each.tenant is None for each in found):
        raise InputError(
            "--acceptance-mixed and --acceptance have no draft length in common; measure both at the same K"
        )
    return found, whole


def _check_tenants(apart: Acceptance, together: Acceptance) -> bool:
    """Refuse acceptance of other tenants; say whether what was measured together tells them apart."""
    named = set(together.tenants) != {None}
    if named and set(together.tenants) != set(apart.tenants):
        here, there = (", ".join(sorted(map(tenant_name, each.tenants))) for each in (together, apart))
        raise InputError(
            f"--acceptance-mixed is of the tenants {here}, --acceptance of {there}; name the same ones, or none in "
            "--acceptance-mixed"
        )
    return named


def _mixing(tenant: str | None, k: int, apart: Curve, together: Curve, noise: float) -> Mixing:
    """Compare two curves at one draft length; their errors are independent, being of different requests."""
    lengths, errors = zip(*((c.mean_length(k), c.length_error(k)) for c in (apart, together)), strict=True)
    around: list[Interval | None] = [
        None if error is None else Interval(max(1.0, length - q * error), min(k + 1.0, length + q * error))
        for length, error, q in zip(lengths, errors, (apart.quantile, together.quantile), strict=True)
    ]
    difference = lengths[1] - lengths[0]
    interval = None
    if errors[0] is not None and errors[1] is not None:
        half = max(apart.quantile, together.quantile) * math.hypot(errors[0], errors[1])
        interval = Interval((difference - half) / lengths[0], (difference + half) / lengths[0])
    counts = [c.requests for c in (apart, together) if c.requests is not None]
    change = Against(difference / lengths[0], interval, noise, min(counts, default=None))
    return Mixing(tenant, k, lengths[0], around[0], lengths[1], around[1], change)


def notes_on_mixing(found: Sequence[Mixing]) -> tuple[str, ...]:
    """Say in words what mixing changes, and that the recommendation rests on what was measured."""
    said = ["acceptance is the one measured while tenants shared batches (--acceptance-mixed)"]
    for each in found:
        if each.tenant is None and not each.change.doubt and not each.change.tie:
            word = "less" if each.change.share < 0 else "more"
            said.append(
                f"mixing: at K = {each.draft_length} the mix emits {100 * abs(each.change.share):.1f} % {word} a round "
                "than its tenants alone would make it"
            )
    return tuple(said)
