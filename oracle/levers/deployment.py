"""A deployment: the memory and bandwidth it has, the model it serves, what each lever costs, and the precisions."""

import math
from dataclasses import dataclass, replace

from oracle.errors import MOST_DRAFT_TOKENS, Faults, InputError, printable
from oracle.levers.matches import READINGS, Reading
from oracle.levers.regime import CHAIN_RULE

WIDEST = 8.0  # bytes a parameter: float64
# Below: a slip of units, and how the quantity is counted.
_FEW = {
    "hbm_bytes": (1e6, "in bytes: 1536 GB is 1536e9"),
    "bandwidth_bytes_per_s": (1e6, "in bytes a second: 64 TB/s is 64e12"),
    "parameters": (1e4, "one by one: 235 B is 235e9"),
    "parameters_read": (1e4, "one by one: 22 B is 22e9"),
}
_EXPERTS = {"experts": (1.0, 1e4), "experts_per_token": (0.1, 1e4)}
_RATIO = 2.0  # up to here a number above 1 is rather a ratio than a percentage


@dataclass(frozen=True)
class Precision:
    """A precision in which the target can be served.

    Attributes
    ----------
    name
        Unique.
    bytes_per_parameter
        b.
    eta
        Acceptance against that of the unquantised target, in (0, 1].
    quality
        On whatever scale `min_quality` is; None: not judged.
    kappa
        Verification compute a draft token, against 1 where the tensor rate rises as 1/b.
    eta_interval
        What eta may be; None: taken as exact.
    """

    name: str
    bytes_per_parameter: float
    eta: float
    quality: float | None = None
    kappa: float = 1.0
    eta_interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Speculation:
    """How drafts are made and what verification costs.

    Attributes
    ----------
    draft_length
        g, tokens drafted each round.
    round_host_ms
        Host work of a round (n-gram lookup, a wider sampler), milliseconds, whatever the precision.
    verify_batch
        B_v: batch size at which verifying `reference_draft_length` tokens doubles the time to read the weights.
    reference_draft_length
        g0.
    base_match
        a0: acceptance where the text does not repeat at all.
    reading, autocorrelation
        How matches follow one another: see `oracle.levers.matches`.
    """

    draft_length: int
    round_host_ms: float
    verify_batch: float
    reference_draft_length: int = 8
    base_match: float = 0.0
    reading: Reading = "independent"
    autocorrelation: float = 0.0


@dataclass(frozen=True)
class Deployment:
    """Everything of the cost per token that is not traffic.

    Attributes
    ----------
    hbm_bytes, bandwidth_bytes_per_s
        Of all devices that serve one copy of the model.
    parameters, parameters_read
        N that are held, and those that a decode step of a full batch reads.
    kv_bytes_per_token
        Of one token of context.
    prefill_ms_per_token
        Of prompt.
    cache_ms_per_token
        gamma: managing the prefix cache costs this per token of context for every resident request, once a request.
    precisions
        At least one, names unique.
    speculation
        How drafts are made.
    min_quality
        Precisions below are left out; None: all are allowed.
    kv_read_share
        Share of the context whose KV a decode step reads; 0 leaves KV reads out, as the source does.
    kv_shared_on_hit
        Whether a cached prefix takes no KV memory of its own in each request.
    prefill_by_precision
        Whether prefill takes as much less time as a parameter has fewer bytes; `prefill_ms_per_token` is then that of
        the widest precision.
    price_per_hour
        Of the whole deployment, in any currency; None: no prices.
    expert_parameters, experts, experts_per_token
        Of a mixture: parameters of all routed experts together, experts a layer, and those a token goes to, which may
        be an effective number; None: not stated.
    reads_grow
        Whether a pass reads the experts that its tokens go to (`oracle.levers.experts`); else all, as the source has.
    """

    hbm_bytes: float
    bandwidth_bytes_per_s: float
    parameters: float
    parameters_read: float
    kv_bytes_per_token: float
    prefill_ms_per_token: float
    cache_ms_per_token: float
    precisions: tuple[Precision, ...]
    speculation: Speculation
    min_quality: float | None = None
    kv_read_share: float = 0.0
    kv_shared_on_hit: bool = False
    prefill_by_precision: bool = False
    price_per_hour: float | None = None
    expert_parameters: float | None = None
    experts: int | None = None
    experts_per_token: float | None = None
    reads_grow: bool = False

    def __post_init__(self) -> None:
        faults = Faults()
        _check_numbers(self, faults)
        _check_experts(self, faults)
        _check_speculation(self.speculation, faults)
        _check_precisions(self, faults)
        faults.raise_if_any()

    @property
    def read_ms_per_byte(self) -> float:
        """Milliseconds to read one byte of every parameter that a step reads (tau)."""
        return 1e3 * self.parameters_read / self.bandwidth_bytes_per_s

    @property
    def admissible(self) -> tuple[int, ...]:
        """Indices of the precisions that pass the quality bar, the widest first: the order in which ties are broken.

        Raises
        ------
        InputError
            None passes.
        """
        passing = [i for i, p in enumerate(self.precisions) if self.rejected(p) is None]
        if not passing:
            raise InputError([f"no precision can be used: {self.rejected(p)}" for p in self.precisions])
        return tuple(sorted(passing, key=lambda i: -self.precisions[i].bytes_per_parameter))

    def rejected(self, precision: Precision) -> str | None:
        """Say why the quality bar leaves a precision out; None if it does not."""
        if self.min_quality is None or precision.quality is None or precision.quality >= self.min_quality:
            return None
        return f"{printable(precision.name)}: quality {precision.quality:g} is below the bar of {self.min_quality:g}"

    def named(self, name: str) -> Precision:
        """Find a precision by its name.

        Raises
        ------
        InputError
            There is none; the message lists those there are.
        """
        for precision in self.precisions:
            if precision.name == name:
                return precision
        known = ", ".join(printable(p.name) for p in self.precisions)
        raise InputError(f"{printable(name)!r} is not a precision of this deployment; it has {known}")

    def drafting(self, draft_length: int) -> "Deployment":
        """Give the same deployment with another draft length."""
        return replace(self, speculation=replace(self.speculation, draft_length=draft_length))


def _check_numbers(deployment: Deployment, faults: Faults) -> None:
    for name in (
        "hbm_bytes",
        "bandwidth_bytes_per_s",
        "parameters",
        "parameters_read",
        "kv_bytes_per_token",
        "prefill_ms_per_token",
    ):
        value = getattr(deployment, name)
        _check(name, value, faults, above=0.0)
        few, meant = _FEW.get(name, (0.0, ""))
        if 0 < value < few:
            faults.add(f"{name} is {value:g}, which no deployment has; it is counted {meant}")
    _check("cache_ms_per_token", deployment.cache_ms_per_token, faults, least=0.0)
    _check("kv_read_share", deployment.kv_read_share, faults, least=0.0, most=1.0)
    if deployment.price_per_hour is not None:
        _check("price_per_hour", deployment.price_per_hour, faults, least=0.0)
    if deployment.min_quality is not None and not math.isfinite(deployment.min_quality):
        faults.add(f"min_quality is {deployment.min_quality}; it is a finite number")
    if deployment.parameters_read > deployment.parameters > 0:
        faults.add(
            f"parameters_read is {deployment.parameters_read:g}, more than the {deployment.parameters:g} that there "
            "are; give what a decode step of a full batch reads"
        )


def _check_experts(deployment: Deployment, faults: Faults) -> None:
    given = {name: getattr(deployment, name) for name in ("expert_parameters", "experts", "experts_per_token")}
    there = {name: value for name, value in given.items() if value is not None}
    if there and len(there) < len(given):
        faults.add(f"{', '.join(there)} without the others; {', '.join(given)} go together")
    if deployment.reads_grow and not there:
        faults.add("reads_grow is set and no experts are stated; add expert_parameters, experts and experts_per_token")
    for name, value in there.items():
        least, most = _EXPERTS.get(name, (0.0, math.inf))
        _check(name, value, faults, least=least, most=most)
    E, k, held = deployment.experts, deployment.experts_per_token, deployment.expert_parameters
    if E is not None and E % 1 != 0:
        faults.add(f"experts is {E}; it is a whole number")
    if E is not None and k is not None and k > E > 0:
        faults.add(f"experts_per_token is {k:g}, more than the {E:g} experts of a layer")
    if held is not None and held > deployment.parameters_read > 0:
        faults.add(
            f"expert_parameters is {held:g}, more than the {deployment.parameters_read:g} that a step of a full batch "
            "reads, which are all experts and the rest"
        )


def _check_speculation(how: Speculation, faults: Faults) -> None:
    for name in ("draft_length", "reference_draft_length"):
        value = getattr(how, name)
        if isinstance(value, bool) or value != int(value) or not 1 <= value <= MOST_DRAFT_TOKENS:
            faults.add(f"speculation.{name} is {value}; it is a whole number from 1 to {MOST_DRAFT_TOKENS}")
    _check("speculation.round_host_ms", how.round_host_ms, faults, least=0.0)
    _check("speculation.verify_batch", how.verify_batch, faults, above=0.0)
    _check("speculation.base_match", how.base_match, faults, least=0.0, below=1.0)
    if not 0 <= how.autocorrelation < 1:
        faults.add(f"speculation.autocorrelation is {how.autocorrelation:g}; {CHAIN_RULE}")
    if how.reading not in READINGS:
        faults.add(f"speculation.reading is {printable(repr(how.reading), 40)}; known: {', '.join(READINGS)}")


def _check_precisions(deployment: Deployment, faults: Faults) -> None:
    if not deployment.precisions:
        faults.add("there is no precision; give at least one, with name, bytes_per_parameter and eta")
    names = [p.name for p in deployment.precisions]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        faults.add(f"precision {printable(name)} is there {names.count(name)} times; names are unique")
    for p in deployment.precisions:
        place = f"precision {printable(p.name)}: "
        if not p.name.strip():
            faults.add("a precision has no name; give it one")
        _check(f"{place}bytes_per_parameter", p.bytes_per_parameter, faults, above=0.0, most=WIDEST)
        _check(f"{place}eta", p.eta, faults, above=0.0, most=1.0)
        _check(f"{place}kappa", p.kappa, faults, above=0.0)
        if p.quality is not None and not math.isfinite(p.quality):
            faults.add(f"{place}quality is {p.quality}; it is a finite number")
        if deployment.min_quality is not None and p.quality is None:
            faults.add(f"{place}quality is missing, and there is a min_quality; add it")
        if p.eta_interval is not None:
            low, high = p.eta_interval
            if not 0 < low <= p.eta <= high <= 1:
                faults.add(f"{place}eta_interval is [{low:g}, {high:g}]; it holds eta ({p.eta:g}) and lies in (0, 1]")


def _check(
    name: str,
    value: float,
    faults: Faults,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> None:
    """Note a number that is not finite or out of range."""
    if math.isfinite(value) and least <= value <= most and above < value < below:
        return
    rules = [
        f"{word} {bound:g}"
        for word, bound in (("at least", least), ("above", above), ("at most", most), ("below", below))
        if math.isfinite(bound)
    ]
    faults.add(f"{name} is {value:g}; it is a finite number {' and '.join(rules)}{_slip(name, value, most)}")


def _slip(name: str, value: float, most: float) -> str:
    """Say what is likely meant by a share above 1."""
    if most != 1.0 or not 1 < value <= 100:
        return ""
    if name.endswith("eta") and value <= _RATIO:
        return (
            f"; a measured ratio above 1 is outside this model, where it counts as 1; if it is {value:g} %, write "
            f"{value / 100:g}"
        )
    return f"; a percentage is written as a fraction: {value / 100:g}"
