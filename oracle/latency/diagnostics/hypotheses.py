"""The three hypotheses of the source about verification time, each judged by a rule written down beside it.

H1: unique experts predict verification time better than each other factor. H2: inside a regime one more unique expert
costs about the same. H3: as the budget grows, time goes more with unique experts and less with context length. A
hypothesis is *supported* or *contradicted* only where the rule of its function says so; everything between is *not
supported by these data*, and what the rounds cannot answer is *cannot be tested*, with the reason. All three are about
prediction: none shows that experts cause the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.latency.diagnostics.constant_increment import ConstantIncrement, constant_increment
from oracle.latency.diagnostics.growing_association import GrowingAssociation, growing_association
from oracle.latency.diagnostics.routing_signal import RoutingPredictsBest, routing_predicts_best
from oracle.latency.evidence import Evidence


@dataclass(frozen=True)
class Hypotheses:
    """The verdicts, in the source's order: each has a `verdict`, a `sentence` and its evidence."""

    h1: RoutingPredictsBest
    h2: ConstantIncrement
    h3: GrowingAssociation


def judge_hypotheses(evidence: Evidence, regimes: Sequence[Sequence[int]] | None = None) -> Hypotheses:
    """Judge all three.

    Parameters
    ----------
    regimes
        The m of each regime, for H2; None takes all measured m as one.
    """
    return Hypotheses(
        routing_predicts_best(evidence), constant_increment(evidence, regimes), growing_association(evidence)
    )
