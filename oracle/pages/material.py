"""What a report is written from: everything that was worked out, or why it was not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oracle.alpha_path.scales import ScaleTally
from oracle.by_length import ByLength
from oracle.contrasts import Contrasts
from oracle.crossover.study import Studied
from oracle.illustrations import Chosen
from oracle.latency.diagnostics.residuals import Residuals
from oracle.latency.evidence import Evidence
from oracle.latency.tables import FitResult
from oracle.levers.answer import Answer, Fitted, Planned
from oracle.levers.shared import Shared
from oracle.pool.answer import PoolAnswer
from oracle.realised.problem import Realised
from oracle.recommendation.answers import Recommendation
from oracle.scores import PolicyTotals
from oracle.stability.study import Stability
from oracle.study import Study
from oracle.tables import Table
from oracle.tuning import HeldOut

DESCRIBED = ("target", "draft", "engine", "device", "recorder")  # of the metadata of traces, as a report names them


@dataclass(frozen=True)
class Absent:
    """Something that these inputs do not give, and why."""

    why: str


@dataclass(frozen=True)
class Policies:
    """Policies compared.

    Attributes
    ----------
    tables
        All that `draft-oracle policies` shows.
    held
        Policies tuned and held out; None where there are too few clusters to hold any out.
    fixed
        Expected totals of the oracle and every static length.
    realised
        On recorded matches; None where no draft tokens were recorded.
    """

    tables: tuple[Table, ...]
    held: HeldOut | None
    fixed: PolicyTotals
    realised: Realised | None


@dataclass(frozen=True)
class Rounds:
    """The rounds behind a latency model.

    Attributes
    ----------
    result, evidence, residuals
        Their fit, the rounds themselves, and what the fit leaves.
    agreement
        Whether the model of the report is the fit of these rounds, in words.
    """

    result: FitResult
    evidence: Evidence
    residuals: Residuals
    agreement: str


@dataclass(frozen=True)
class Levers:
    """Serving levers of a deployment that was stated: a model's output, nothing that the traces tell.

    Attributes
    ----------
    tables
        All that `draft-oracle levers` shows.
    plans
        The schedules of series.
    shown, which
        The regime that figures are drawn for, and which one of several it is, in words: "" where there is one.
    fitted
        What was fitted from measurements; None: everything is as stated.
    shared
        What to set where tenants share the deployment; None unless there are several.
    """

    tables: tuple[Table, ...]
    plans: tuple[Planned, ...]
    shown: Answer
    which: str = ""
    fitted: Fitted | None = None
    shared: Shared | None = None


@dataclass(frozen=True)
class Material:
    """Everything that sections are written from.

    Attributes
    ----------
    study
        Solved, scored, ablated.
    lengths
        Draft lengths side by side.
    answer
        The recommended static length.
    scales
        The path along a scale on all alpha.
    policies, rounds, stability, contrasts, cases, gallery, serving, levers, pool
        Or why they are absent.
    warnings
        What was warned of while the inputs were read.
    provenance
        What everything rests on.
    described
        What the traces say of their making: those of `DESCRIBED` that they name.
    """

    study: Study
    lengths: ByLength
    answer: Recommendation
    scales: ScaleTally
    policies: Policies | Absent
    rounds: Rounds | Absent
    stability: Stability | Absent
    contrasts: Contrasts | Absent
    cases: Chosen | Absent
    gallery: Chosen | Absent
    warnings: tuple[str, ...]
    provenance: Mapping[str, Any]
    described: Mapping[str, str] = field(default_factory=dict)
    serving: Studied | Absent = Absent("batches were not looked at")
    levers: Levers | Absent = Absent("no deployment was stated (--deployment FILE, its traffic with --traffic FILE)")
    pool: PoolAnswer | Absent = Absent("no memory plan was stated (--pool FILE)")

    @property
    def sample(self) -> str:
        """How much everything rests on, in words."""
        s = self.study
        return f"n = {s.positions:,} decisions of {s.generations:,} generations, {s.clusters:,} clusters"
