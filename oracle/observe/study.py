"""One look at a log: concurrency, prefix sharing and repetitiveness, over all, by slot and by tenant."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.levers.matches import Reading
from oracle.observe.concurrency import InFlight, in_flight
from oracle.observe.gathered import Gathered
from oracle.observe.prefix_sharing import PrefixSharing, prefix_sharing
from oracle.observe.regimes import Floats, Material, ObservedRegime, regime_of
from oracle.observe.slots import Slots, Unit, slots_of, units_of


@dataclass(frozen=True)
class Wanted:
    """What is asked of a log.

    Attributes
    ----------
    slot_seconds, zone
        Length of a slot, and whose clocks name it.
    cache_blocks
        Capacity at which prefix sharing is taken; None: a cache that never evicts.
    reading
        Of repetitiveness.
    unit
        What is resampled; None: clusters where the log names them, else stretches of time.
    by_tenant
        Whether each tenant has slots of its own.
    """

    slot_seconds: float = 3600.0
    zone: tzinfo | None = None
    cache_blocks: int | None = None
    reading: Reading = "stationary"
    unit: Unit | None = None
    by_tenant: bool = False


@dataclass(frozen=True, eq=False)
class Observed:
    """What a log shows.

    Attributes
    ----------
    log, wanted, slots
    unit
        What was resampled.
    flight
        Requests in flight over time.
    sharing
        None without texts.
    material
        Of which regimes are made.
    whole
        All requests.
    by_slot
        Slots with arrivals, in order; of each tenant in turn where asked for.
    by_tenant
        Every tenant over all the time; empty where they are not told apart.
    """

    log: Gathered
    wanted: Wanted
    slots: Slots
    unit: Unit
    flight: InFlight
    sharing: PrefixSharing | None
    material: Material
    whole: ObservedRegime
    by_slot: tuple[ObservedRegime, ...]
    by_tenant: tuple[ObservedRegime, ...]

    def unit_totals(self) -> Floats:
        """Sums of every unit of resampling, as `Material.totals` gives them."""
        return self.material.totals(np.arange(self.log.requests))


def study(log: Gathered, wanted: Wanted) -> Observed:
    """Look at a log.

    Raises
    ------
    InputError
        No time passes in it, it spans too many slots, or what is to be resampled is not named.
    """
    flight = in_flight(log.arrival, log.end)
    if flight is None:
        raise InputError("every request begins and ends at one moment; give logs whose times are arrival and end")
    slots = slots_of(log, wanted.slot_seconds, wanted.zone)
    unit: Unit = wanted.unit or ("cluster" if log.clusters else "time")
    sharing = prefix_sharing(log) if log.has_tokens else None
    hits = None if sharing is None else sharing.hit_tokens(wanted.cache_blocks)
    material = Material(log, hits, units_of(log, unit, slots), wanted.reading)
    everyone = np.arange(log.requests)
    if wanted.by_tenant and not log.tenants:
        raise InputError("--by-tenant: the logs have no column tenant; add it, or leave the option out")
    groups = _tenants(log) if wanted.by_tenant else [(None, everyone)]
    return Observed(
        log,
        wanted,
        slots,
        unit,
        flight,
        sharing,
        material,
        _overall(material, everyone, None),
        tuple(each for name, members in groups for each in _in_slots(material, members, slots, name)),
        tuple(_overall(material, members, name) for name, members in _tenants(log)),
    )


def _tenants(log: Gathered) -> list[tuple[str, NDArray[np.intp]]]:
    return [(name, np.flatnonzero(log.tenant == i)) for i, name in enumerate(log.tenants)]


def _overall(material: Material, members: NDArray[np.intp], tenant: str | None) -> ObservedRegime:
    log = material.log
    edges = np.array([log.arrival.min(), log.end.max()])
    return regime_of(material, members, next(_concurrency(log, members, edges)), None, tenant)


def _in_slots(
    material: Material, members: NDArray[np.intp], slots: Slots, tenant: str | None
) -> Iterator[ObservedRegime]:
    """Sum up each slot in which some of the members arrive."""
    where = slots.of(material.log.arrival[members])
    for s, concurrency in enumerate(_concurrency(material.log, members, slots.edges)):
        here = members[where == s]
        if len(here):
            yield regime_of(material, here, concurrency, slots.names[s], tenant)


def _concurrency(log: Gathered, members: NDArray[np.intp], edges: Floats) -> Iterator[tuple[float, float, int]]:
    """Mean while busy, mean and peak of each stretch; the mean is over the time that the whole log covers."""
    flight = in_flight(log.arrival[members], log.end[members])
    if flight is None:
        yield from ((np.nan, 0.0, 0) for _ in edges[1:])
        return
    found = flight.within(edges)
    covered = np.diff(np.clip(edges, log.arrival.min(), log.end.max()))
    for s in range(len(edges) - 1):
        mean = found.request_seconds[s] / covered[s] if covered[s] > 0 else np.nan
        yield float(found.busy_mean[s]), float(mean), int(found.peak[s])
