"""The first walk over all requests: what the whole of them tells, which no single one does.

Which layers are dense, the acceptance that match probabilities are made of, whether every request has token ids and
rounds. Of the requests only counts are kept: about 100 bytes a request.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oracle.acceptance.requests import counts_of, metrics_in
from oracle.empirical.risk_sets import RiskSets, states_of, step_counts
from oracle.errors import Faults, InputError, printable
from oracle.recorded_by.aligned import EMPIRICAL, Aligned, Wanted, aligned
from oracle.recorded_by.alignment import INFER, LayersSeen, layers_seen
from oracle.recorded_by.request import Request

MOST_FAULTS_GATHERED = 1000
_MOST_STARTS = 4
_FLAT = (
    "the engine sends routing without its shape: {} layers follow from --top-k {} as given, and a wrong one can go "
    "unnoticed; --layers checks it"
)
_VARYING = (
    "the engine drafted fewer than K tokens in some rounds: not drafted is not counted as rejected; but if it stopped "
    "a draft where it expected a rejection, match probabilities at greater depth are over-estimated"
)


@dataclass
class Survey:
    """What has been seen so far.

    Attributes
    ----------
    wanted
        What the caller says.
    places
        Where each name was first seen.
    requests, positions, empty
        How many; `empty` emitted no decode token.
    routed
        Requests with routing.
    layers, shape
        What the rows say of the layers; (layers, slots).
    starts
        Inferred first tokens with a row of routing, and how many requests have each.
    risk, risk_after
        Rounds at risk and matched, by the contexts wanted and by what the round before did.
    uncounted
        Requests without counts by position.
    with_ids, with_texts, with_rounds
        Requests that have token ids, texts, and steps that make up the text.
    labels
        Which of category, tenant and cluster occur.
    notes
        What a reader must know.
    """

    wanted: Wanted
    faults: Faults = field(default_factory=Faults)
    places: dict[str, str] = field(default_factory=dict)
    requests: int = 0
    positions: int = 0
    empty: int = 0
    routed: int = 0
    layers: LayersSeen | None = None
    shape: tuple[int, int] | None = None
    starts: Counter[int] = field(default_factory=Counter)
    risk: RiskSets = field(default_factory=RiskSets)
    risk_after: RiskSets = field(default_factory=RiskSets)
    uncounted: int = 0
    with_ids: int = 0
    with_texts: int = 0
    with_rounds: int = 0
    labels: set[str] = field(default_factory=set)
    notes: dict[str, None] = field(default_factory=dict)

    def add(self, request: Request) -> None:
        """Look at one request; faults are noted."""
        self.requests += 1
        counted = self._counts(request)
        try:
            generation = aligned(request, self.requests, self.wanted)
        except InputError as error:
            for fault in error.faults:
                self.faults.add(fault)
            return
        first = self.places.setdefault(generation.name, request.place)
        if first != request.place:
            self.faults.add(
                f"{request.place}: the id '{printable(generation.name)}' was there before ({first}); each request has "
                "its own: is a response in the files twice?"
            )
        self.positions += generation.positions
        self.empty += generation.positions == 0
        self.with_ids += request.token_id is not None
        self.with_texts += request.token_text is not None
        self.with_rounds += generation.whole
        self.labels.update(request.labels)
        self._look_at_rows(generation)
        if counted is not None:
            self._count(generation, counted)

    def _counts(self, request: Request) -> tuple[np.ndarray, np.ndarray] | None:
        """Rounds at risk and matched by position, (K,) each; None where there are none."""
        metrics = request.metrics
        if metrics is None or self.wanted.match != EMPIRICAL:
            self.uncounted += 1
            return None
        found = next(metrics_in(dict(metrics), request.place), None)
        counted = None if found is None else counts_of(found[0], request.place, self.faults, self.notes)
        if counted is None:
            self.uncounted += 1
            return None
        if counted[1]:
            self.notes.setdefault(_VARYING)
        return counted[0]

    def _look_at_rows(self, generation: Aligned) -> None:
        rows = generation.rows
        if rows is None:
            return
        self.routed += 1
        self._note_origin(generation)
        shape = (rows.shape[1], rows.shape[2])
        if self.shape is not None and shape != self.shape:
            self.faults.add(
                f"{generation.request.place}: routing of {shape[0]} layers x {shape[1]} where the requests before have "
                f"{self.shape[0]} x {self.shape[1]}; one trace holds one target"
            )
            return
        self.shape = shape
        seen = layers_seen(rows)
        self.layers = seen if self.layers is None else self.layers | seen

    def _note_origin(self, generation: Aligned) -> None:
        """Note what was inferred or told of the shape."""
        request, wanted = generation.request, self.wanted
        assert request.routing is not None
        values = request.routing.values
        if values.ndim == 1 and wanted.layers is None and generation.rows is not None:
            self.notes.setdefault(_FLAT.format(generation.rows.shape[1], wanted.top_k))
        if wanted.routing_start == INFER:
            self.starts[generation.prompt_tokens + (request.emitted or 0) - 1 - len(values)] += 1

    def on_starts(self) -> list[str]:
        """Say which starts of the routing were inferred, and in how many requests."""
        if not self.starts:
            return []
        ways = [f"token {start} in {count:,}" for start, count in self.starts.most_common(_MOST_STARTS)]
        more = len(self.starts) - len(ways)
        said = f"inferred first token with a row of routing: {', '.join(ways)}{f' and {more} others' if more else ''}"
        if len(self.starts) == 1:
            return [f"{said} requests"]
        return [f"{said} requests; it varies, as with cached prefixes, but rows that were lost look the same"]

    def _count(self, generation: Aligned, counted: tuple[np.ndarray, np.ndarray]) -> None:
        self.risk.add(generation.context(self.wanted.by), generation.cluster, *counted)
        accepted, drafted = generation.accepted, generation.drafted
        if not generation.whole or accepted is None or drafted is None:
            return
        states = np.array(states_of(accepted, drafted))
        for state in dict.fromkeys(states.tolist()):
            at = states == state
            counts = step_counts(accepted[at], drafted[at], len(counted[0]))
            self.risk_after.add((state,), generation.cluster, *counts)

    def target(self) -> Mapping[str, Any]:
        """layers, top_k, num_experts and the dense layers left out; empty for a dense target.

        Raises
        ------
        InputError
            It is neither told nor recorded whether there are experts, or how many.
        """
        wanted = self.wanted
        faults = Faults()
        if 0 < self.routed < self.requests:
            faults.add(f"{self.routed} of {self.requests} requests hold routing; a trace needs it of all, or of none")
        if self.routed and wanted.dense_target:
            faults.add("--dense says that the target has no experts, but the requests hold routing; leave --dense out")
        if not self.routed and not wanted.dense_target:
            faults.add(
                "the requests hold no routing, without which experts would cost nothing; record it (--explain ENGINE "
                "says how), or say --dense if the target is dense"
            )
        if self.routed and not wanted.dense_target and wanted.num_experts is None:
            faults.add("no engine sends the number of experts a layer; say it with --num-experts")
        if self.starts[1]:
            faults.add(
                f"--routing-start infer finds one row missing in {self.starts[1]:,} requests: a row lost at the end "
                "looks the same, and all others would move by one position; say --routing-start 1 if the prompt's "
                "first row was left out"
            )
        faults.raise_if_any()
        if not self.routed or self.layers is None or self.shape is None:
            return {}
        layers, top_k = self.shape
        dense = self.layers.dense_layers(top_k) if wanted.dense_layers is None else wanted.dense_layers
        if any(not 0 <= layer < layers for layer in dense):
            raise InputError(f"--dense-layers names layers outside 0 … {layers - 1}, which is what was recorded")
        if len(dense) == layers:
            raise InputError(
                "every layer reads 0 or -1 throughout, as dense layers do; was routing captured at all? (Engines that "
                "lose the capture under speculation send zeros)"
            )
        return {"layers": layers - len(dense), "top_k": top_k, "num_experts": wanted.num_experts, "dense": dense}
