"""How long steps take, as a plan states it, and the two ways in which computing can join the time of reading bytes."""

from dataclasses import dataclass
from enum import StrEnum

from oracle.errors import Faults
from oracle.pool.ranges import NOT_NEGATIVE, POSITIVE, SHARE, check_ranges


class Reading(StrEnum):
    """How computing joins the time of reading bytes; which one holds only measured rounds tell.

    ADDED: verifying draft tokens comes on top of reading; the token of a plain step costs nothing. HIDDEN: a pass takes
    the longer of reading bytes and computing all its tokens, that of the plain step included.
    """

    ADDED = "added"
    HIDDEN = "hidden"


@dataclass(frozen=True)
class Timing:
    """How long a decode step takes: by the bytes it reads, or as measured.

    Attributes
    ----------
    bandwidth_bytes_per_s
        Of all devices together; None where steps were measured.
    kv_read_share
        Share of the context whose KV a step reads.
    step_host_ms
        Host work of a step.
    verify_ms_per_token
        What computing one token of one tenant in a pass takes, where a precision does not say otherwise.
    step_base_ms, step_ms_per_tenant
        A line through measured steps, by tenants that decode together.
    reading
        How computing joins the time of reading bytes; nothing that is stated: answers are worked out by both.
    """

    bandwidth_bytes_per_s: float | None = None
    kv_read_share: float = 1.0
    step_host_ms: float = 0.0
    verify_ms_per_token: float = 0.0
    step_base_ms: float | None = None
    step_ms_per_tenant: float | None = None
    reading: Reading = Reading.ADDED

    @property
    def is_measured(self) -> bool:
        """Whether the line of measured steps is used."""
        return self.step_base_ms is not None

    def check(self, place: str, faults: Faults) -> None:
        """Note what is out of range, and what goes with another way of telling times."""
        rules = dict.fromkeys(("step_host_ms", "verify_ms_per_token", "step_ms_per_tenant"), NOT_NEGATIVE)
        rules |= {"bandwidth_bytes_per_s": POSITIVE, "kv_read_share": SHARE, "step_base_ms": POSITIVE}
        check_ranges(self, rules, f"{place}.", faults)
        if (self.step_base_ms is None) != (self.step_ms_per_tenant is None):
            faults.add(f"{place}: step_base_ms and step_ms_per_tenant go together; give both or none")
        if self.is_measured == (self.bandwidth_bytes_per_s is not None):
            faults.add(f"{place}: give either bandwidth_gb_per_s or measured steps (step_base_ms, step_ms_per_tenant)")
        plain = Timing()
        calculated = [
            name
            for name in ("kv_read_share", "step_host_ms", "verify_ms_per_token")
            if getattr(self, name) != getattr(plain, name)
        ]
        if self.is_measured and calculated:
            faults.add(f"{place}: measured steps hold {', '.join(calculated)} already; leave out one or the other")
