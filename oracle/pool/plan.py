"""A memory plan: what there is, which model in which precisions, the tenants, the speed-ups and how long steps take."""

from dataclasses import dataclass

from oracle.errors import MOST_DRAFT_TOKENS, Faults, printable
from oracle.pool.early_exit import EarlyExit
from oracle.pool.kv_cache import KvCache
from oracle.pool.ranges import COUNT, NOT_NEGATIVE, POSITIVE, Range, check_ranges
from oracle.pool.speedup import Speedup
from oracle.pool.timing import Timing
from oracle.pool.unique_experts import UniqueExperts, check_unique_experts

GIB = 1 << 30
_WIDEST = Range(above=0, most=8)  # bytes a value: float64
_ACTIVE_OFF = 0.25  # share by which active parameters may be off


@dataclass(frozen=True)
class Memory:
    """HBM of all devices that serve one copy of the model.

    Attributes
    ----------
    usable_bytes
        What the engine may use; where `is_pool`, what is left of it for KV.
    reserve_bytes
        Activations and graphs.
    is_pool
        Whether weights and reserve have been taken off already (an engine prints what is left for KV).
    """

    usable_bytes: int
    reserve_bytes: int = 0
    is_pool: bool = False


@dataclass(frozen=True)
class Precision:
    """How weights, or values of the KV cache, are stored.

    Attributes
    ----------
    name
        Unique among those of weights, or of KV.
    bytes_per_value
        Without scales.
    scale_bytes, values_per_scale
        Bytes of one scale and how many values share it.
    verify_ms_per_token
        Of weights: what computing one token of one tenant takes at this precision; None: as the timing says.
    """

    name: str
    bytes_per_value: float
    scale_bytes: float = 0.0
    values_per_scale: int = 1
    verify_ms_per_token: float | None = None

    @property
    def stored_bytes(self) -> float:
        """Bytes a value takes, its part of the scale included."""
        return self.bytes_per_value + self.scale_bytes / self.values_per_scale


@dataclass(frozen=True)
class Model:
    """The target.

    Attributes
    ----------
    parameters
        All of them, experts included.
    active_parameters
        Those that one token uses; None: not stated.
    kept_parameters, kept_bytes_per_parameter
        Those that stay as they are at every precision (embeddings, routers), and their bytes.
    expert_parameters, experts, experts_per_token
        Parameters of all routed experts together, experts a layer and those a token goes to; None: a step reads all.
    """

    parameters: float
    active_parameters: float | None = None
    kept_parameters: float = 0.0
    kept_bytes_per_parameter: float = 2.0
    expert_parameters: float | None = None
    experts: int | None = None
    experts_per_token: int | None = None

    @property
    def routed_share(self) -> float | None:
        """Share of the routed experts that one token goes to; None: not stated."""
        return self.experts_per_token / self.experts if self.experts and self.experts_per_token else None


@dataclass(frozen=True)
class Tenant:
    """Tenants of one kind: how many are asked for, and the context that each holds."""

    name: str
    count: int
    context_tokens: int


@dataclass(frozen=True)
class Plan:
    """Everything that is stated; what is None or empty was left open.

    Raises
    ------
    InputError
        All values out of range at once.
    """

    memory: Memory
    model: Model | None = None
    precisions: tuple[Precision, ...] = ()
    kv: KvCache | None = None
    kv_precisions: tuple[Precision, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    speedups: tuple[Speedup, ...] = ()
    timing: Timing | None = None
    early_exit: EarlyExit | None = None
    unique_experts: tuple[UniqueExperts, ...] = ()

    def __post_init__(self) -> None:
        faults = Faults()
        _check_memory(self, faults)
        _check_model(self, faults)
        _check_kv(self, faults)
        _check_timing(self, faults)
        experts, top_k = (None, None) if self.model is None else (self.model.experts, self.model.experts_per_token)
        check_unique_experts(self.unique_experts, experts, top_k, "unique_experts", faults)
        if self.early_exit is not None:
            self.early_exit.check("early_exit.", faults)
        faults.raise_if_any()

    @property
    def reads_experts(self) -> bool:
        """Whether the bytes that a step reads depend on the experts touched."""
        timing = self.timing
        calculated = timing is not None and not timing.is_measured
        return calculated and self.model is not None and self.model.experts is not None

    @property
    def tenants_asked(self) -> int:
        """All tenants together."""
        return sum(tenant.count for tenant in self.tenants)


def _check_memory(plan: Plan, faults: Faults) -> None:
    memory = plan.memory
    check_ranges(memory, {"usable_bytes": POSITIVE, "reserve_bytes": NOT_NEGATIVE}, "hardware: ", faults)
    if memory.is_pool and memory.reserve_bytes:
        faults.add("hardware: the reserve is taken off already where the pool is given; leave one of them out")
    if not memory.is_pool and plan.model is None:
        faults.add("model is missing; add [model] with parameters, or give pool_gib, what an engine leaves for KV")


def _check_model(plan: Plan, faults: Faults) -> None:
    _check_precisions(plan.precisions, "precision", faults)
    _check_precisions(plan.kv_precisions, "kv_precision", faults)
    model = plan.model
    if model is None:
        if plan.precisions:
            faults.add("precision: there is no [model] that it could be the precision of; add it")
        return
    if not plan.precisions:
        faults.add("precision: there is none; give at least one [[precision]], with name and bytes_per_value")
    rules = dict.fromkeys(
        ("parameters", "active_parameters", "expert_parameters", "kept_bytes_per_parameter"), POSITIVE
    )
    counts = {"experts": COUNT, "experts_per_token": COUNT, "kept_parameters": NOT_NEGATIVE}
    check_ranges(model, rules | counts, "model.", faults)
    for name in ("active_parameters", "expert_parameters", "kept_parameters"):
        value = getattr(model, name)
        if value is not None and value > model.parameters:
            faults.add(f"model.{name} is {value:g}, more than the {model.parameters:g} parameters that there are")
    given = [name for name in ("expert_parameters", "experts", "experts_per_token") if getattr(model, name) is not None]
    if 0 < len(given) < 3:
        faults.add(
            f"model: {', '.join(given)} without the others; expert_parameters, experts and experts_per_token go "
            "together"
        )
    if model.experts is not None and model.experts_per_token is not None and model.experts_per_token > model.experts:
        faults.add(f"model.experts_per_token is {model.experts_per_token:g}, more than the {model.experts:g} experts")
    _check_active(model, faults)


def _check_active(model: Model, faults: Faults) -> None:
    """Note active parameters that the experts do not make; models count embeddings among them or not, so roughly."""
    routed, active = model.routed_share, model.active_parameters
    if model.expert_parameters is None or routed is None or active is None or not 0 < routed <= 1:
        return
    made = model.parameters - model.expert_parameters * (1 - routed)
    if made > 0 and abs(active / made - 1) > _ACTIVE_OFF:
        faults.add(
            f"model.active_parameters is {active:.3g}, and what is outside the experts with "
            f"{model.experts_per_token:g} of {model.experts:g} experts makes {made:.3g}; expert_parameters are those "
            "of all experts of all layers"
        )


def _check_precisions(precisions: tuple[Precision, ...], kind: str, faults: Faults) -> None:
    _check_unique([p.name for p in precisions], kind, faults)
    rules = {"bytes_per_value": _WIDEST, "scale_bytes": NOT_NEGATIVE, "values_per_scale": COUNT}
    rules["verify_ms_per_token"] = NOT_NEGATIVE
    for precision in precisions:
        check_ranges(precision, rules, f"{kind} {printable(precision.name)}: ", faults)


def _check_unique(names: list[str], kind: str, faults: Faults) -> None:
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        faults.add(f"{kind} {printable(name)} is there {names.count(name)} times; names are unique")


def _check_kv(plan: Plan, faults: Faults) -> None:
    if plan.kv is not None:
        plan.kv.check("kv.", faults)
        if plan.kv.is_bytes and plan.kv_precisions:
            faults.add("kv_precision: kv.bytes_per_token holds its precision already; give the shape of the attention")
        if not plan.kv.is_bytes and not plan.kv_precisions:
            faults.add("kv_precision: there is none; give at least one [[kv_precision]], with name and bytes_per_value")
    elif plan.tenants or plan.kv_precisions:
        faults.add("kv is missing; add [kv] with the shape of the attention or bytes_per_token")
    for tenant in plan.tenants:
        place = f"tenant {printable(tenant.name)}: "
        check_ranges(tenant, {"count": COUNT, "context_tokens": COUNT}, place, faults)
    _check_unique([t.name for t in plan.tenants], "tenant", faults)
    _check_unique([s.name for s in plan.speedups], "speedup", faults)
    for speedup in plan.speedups:
        speedup.check(f"speedup {printable(speedup.name)}: ", MOST_DRAFT_TOKENS, faults)


def _check_timing(plan: Plan, faults: Faults) -> None:
    timing = plan.timing
    if timing is None:
        return
    timing.check("timing", faults)
    if not timing.is_measured and plan.model is None:
        faults.add("timing: bytes that a step reads need a [model]; add it, or give measured steps")
    for precision in plan.precisions:
        if timing.is_measured and precision.verify_ms_per_token is not None:
            faults.add(
                f"precision {printable(precision.name)}: measured steps hold verify_ms_per_token already; leave out "
                "one or the other"
            )
    for speedup in plan.speedups:
        if speedup.is_measured and not timing.is_measured:
            faults.add(
                f"speedup {printable(speedup.name)}: its rounds were measured and plain steps are calculated; give "
                "measured steps too"
            )
