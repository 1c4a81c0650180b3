"""Where match probabilities come from: counts in the requests, counts beside them, or a scored text."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.acceptance import Acceptance, Curve
from oracle.empirical.shrinkage import Rates, shrunk
from oracle.errors import InputError, printable
from oracle.recorded_by.aligned import EMPIRICAL, Aligned, Wanted
from oracle.recorded_by.scored_text import LOWER, UPPER, ScoredTexts, match_of
from oracle.recorded_by.survey import Survey

BY_DEPTH, BY_POSITION = "match_probs", "match_prob"


@dataclass(frozen=True, eq=False)
class MatchSource:
    """Gives each generation its match probabilities.

    Attributes
    ----------
    wanted
        What the caller wants.
    rates
        From the counts in the requests.
    curves : tenant to (K,) conditional probabilities
        From counts beside them; the tenant None stands for all.
    draft, target
        Scored texts.
    """

    wanted: Wanted
    rates: Rates | None = None
    curves: dict[str | None, NDArray[np.float64]] | None = None
    draft: ScoredTexts | None = None
    target: ScoredTexts | None = None

    @property
    def column(self) -> str:
        """Which column of the trace they fill."""
        return BY_POSITION if self.draft is not None else BY_DEPTH

    def of(self, generation: Aligned) -> NDArray[np.float32]:
        """Match probabilities: (N, K) by depth, or (N,) from a scored text.

        Raises
        ------
        InputError
            The scored texts hold nothing of this generation, or its tenant has no curve.
        """
        if self.draft is not None:
            return self._scored(self.draft, generation)
        if self.curves is None:
            assert self.rates is not None
            rates = self.rates.of(generation.context(self.wanted.by))
        else:
            rates = self._curve(generation)
        return np.tile(rates, (generation.positions, 1)).astype(np.float32)

    def _curve(self, generation: Aligned) -> NDArray[np.float64]:
        assert self.curves is not None
        tenant = generation.request.labels.get("tenant")
        found = self.curves.get(tenant, self.curves.get(None))
        if found is None:
            named = "no tenant" if tenant is None else f"tenant '{printable(tenant)}'"
            raise InputError(f"{generation.request.place}: --acceptance holds nothing of {named}; give its counts too")
        return found

    def _scored(self, draft: ScoredTexts, generation: Aligned) -> NDArray[np.float32]:
        request, name = generation.request, generation.name
        if request.token_id is None:
            raise InputError(
                f"{request.place}: holds no token ids, without which a scored text cannot be checked against it; "
                "record them (vLLM: return_token_ids, SGLang: output_ids)"
            )
        for texts in (draft, self.target):
            if texts is not None and name not in texts:
                raise InputError(f"{request.place}: {texts.path.name} holds no record with the id '{printable(name)}'")
        target = None if self.target is None else self.target.of(name, request.token_id)
        scores = draft.of(name, request.token_id)
        return match_of(self.wanted.match, scores, target, generation.prompt_tokens, len(request.token_id))


def match_source(
    survey: Survey, acceptance: Acceptance | None, draft: ScoredTexts | None, target: ScoredTexts | None
) -> MatchSource:
    """Choose the source.

    Raises
    ------
    InputError
        Nothing tells match probabilities, or more than one thing does.
    """
    wanted = survey.wanted
    if wanted.match != EMPIRICAL:
        if draft is None:
            raise InputError(f"--match {wanted.match} needs the draft's scores of the texts; give --draft-logprobs")
        if (target is None) == (wanted.match in (LOWER, UPPER)):
            raise InputError("--target-logprobs goes with --match overlap_lower and overlap_upper, which need it")
        return MatchSource(wanted, draft=draft, target=target)
    if draft is not None or target is not None:
        raise InputError(
            "--draft-logprobs and --target-logprobs need --match reference, greedy, overlap_lower or overlap_upper"
        )
    if acceptance is not None:
        return MatchSource(wanted, curves=_conditional(acceptance))
    unnamed = [name for name in ("category", "tenant") if name in wanted.by and name not in survey.labels]
    if unnamed:
        raise InputError(
            f"--by {unnamed[0]}: no record names its {unnamed[0]}; add the key {unnamed[0]} to the records"
        )
    if not survey.risk:
        raise InputError(
            "the requests hold no accepted tokens by position (no engine sends match probabilities, and totals do not "
            "tell positions); record per-request metrics, or give --acceptance FILE (counters, log lines, a table) or "
            "--draft-logprobs FILE"
        )
    return MatchSource(wanted, rates=shrunk(survey.risk.tables()))


def _conditional(acceptance: Acceptance) -> dict[str | None, NDArray[np.float64]]:
    """Conditional probabilities of each tenant, of the longest draft measured, up to where survival ends.

    S_j / S_{j-1}; what lies beyond a survival of 0 was never at risk. All are cut to the shortest.
    """
    longest: dict[str | None, Curve] = {}
    for curve in acceptance.curves:
        if not curve.by_position:
            raise InputError(
                "--acceptance holds totals, which do not tell positions; give counters by position, or per-request "
                "metrics"
            )
        if curve.tenant not in longest or len(curve.survival) > len(longest[curve.tenant].survival):
            longest[curve.tenant] = curve
    found = {}
    for tenant, curve in longest.items():
        before = np.concatenate([[1.0], curve.survival[:-1]])
        known = before > 0
        found[tenant] = curve.survival[known] / before[known]
    depth = min(len(values) for values in found.values())
    return {tenant: values[:depth] for tenant, values in found.items()}
