"""The gallery: at most twelve decisions, one for each rule of `gallery_rules`."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from oracle.errors import InputError
from oracle.files import shown
from oracle.illustrations.candidates import Candidate, best_of, shortened
from oracle.illustrations.chosen import Chosen, explain_all
from oracle.illustrations.gallery_rules import RULES, SHOWN, ranked_by, view_of
from oracle.illustrations.search import Search, decide
from oracle.pipeline import in_order
from oracle.traces import Traces

GALLERY_RULES = (
    SHOWN,
    *(f"{rule.group}, {rule.name}: {rule.sentence}; first by {ranked_by(rule)}" for rule in RULES),
    "the rule with the fewest generations to choose from chooses first",
)
_NEEDED = ("token_text", "token_id", "draft_token_id")

Picked = Mapping[str, tuple[Candidate, tuple[str, ...]] | str]


def choose_gallery(
    search: Search, besides: Chosen | None = None, *, on_batch: Callable[[int], None] | None = None
) -> Chosen:
    """Choose the gallery by `GALLERY_RULES` from all decisions of the traces.

    The traces are walked over once; then the generations chosen are read again.

    Parameters
    ----------
    search
        Where to look; the traces hold `token_text`, `token_id` and `draft_token_id`.
    besides
        Cases, whose generations are not shown again.
    on_batch
        Called with the number of generations after each batch.

    Returns
    -------
    Chosen
        In the order of the rules, with a sentence in `missing` for each rule that shows none.

    Raises
    ------
    InputError
        The traces lack texts or proposals.
    """
    _refuse_without_texts(search)
    taken = () if besides is None else tuple(one.candidate for one in besides.illustrations)
    short, choices, satisfied = _walk(search, len(RULES) + len(taken), on_batch)
    picked = pick_gallery(short, choices, taken)
    shows = [(rule.group, *answer) for rule in RULES if not isinstance(answer := picked[rule.name], str)]
    missing = [f"{rule.group}, {rule.name}: {answer}" for rule in RULES if isinstance(answer := picked[rule.name], str)]
    return Chosen(
        illustrations=explain_all(search, shows),
        missing=tuple(missing),
        rules=GALLERY_RULES,
        found=(f"decisions that satisfy each rule: {'; '.join(f'{name} {n:,}' for name, n in satisfied.items())}",),
        change=shown(str(search.change)),
    )


def _walk(
    search: Search, most: int, on_batch: Callable[[int], None] | None
) -> tuple[dict[str, list[Candidate]], Counter[str], Counter[str]]:
    """Go through the traces: by rule, the candidates that `most` choices may take; generations; decisions."""
    short: dict[str, list[Candidate]] = {rule.name: [] for rule in RULES}
    choices, satisfied = Counter(dict.fromkeys(short, 0)), Counter(dict.fromkeys(short, 0))
    generations = 0
    for found, several, size in in_order(partial(_look, search=search), search.files, search.threads):
        for one in found:
            short[one.rule].append(replace(one, order=one.order + generations))
            choices[one.rule] += 1
        short = {name: shortened(kept, most) for name, kept in short.items()}
        satisfied.update(several)
        generations += size
        if on_batch is not None:
            on_batch(size)
    return short, choices, satisfied


def _refuse_without_texts(search: Search) -> None:
    lacking = [name for name in _NEEDED if name not in search.files.column_names]
    if lacking:
        raise InputError(
            f"{shown(search.files.paths[0])}: the gallery is chosen by texts and recorded proposals, and needs the "
            f"columns {', '.join(_NEEDED)}; the trace lacks {', '.join(lacking)}: record them, or ask for cases only"
        )


def _look(traces: Traces, search: Search) -> tuple[list[Candidate], dict[str, int], int]:
    """Candidates of one batch, how many decisions satisfy each rule, and how many generations there were."""
    if not traces.positions:
        return [], dict.fromkeys((rule.name for rule in RULES), 0), traces.generations
    decided = decide(traces, search)
    view, found, counts = view_of(decided), [], {}
    for rule in RULES:
        satisfied = decided.shown & rule.test(view)
        counts[rule.name] = int(satisfied.sum())
        found += best_of(decided, rule.name, satisfied, rule.effect(view))
    return found, counts, traces.generations


def pick_gallery(
    candidates: Mapping[str, Sequence[Candidate]], choices: Mapping[str, int], taken: Sequence[Candidate]
) -> Picked:
    """Pick one candidate for each rule, or say why there is none.

    Parameters
    ----------
    candidates
        By rule, in the order they rank.
    choices
        By rule, how many generations hold a decision that satisfies it; the fewest choose first.
    taken
        Decisions that are shown elsewhere.
    """
    generations, clusters = {one.generation for one in taken}, {one.cluster for one in taken}
    picked: dict[str, tuple[Candidate, tuple[str, ...]] | str] = {}
    for name in sorted(candidates, key=choices.__getitem__):  # stable: else the order of the rules
        free = [one for one in candidates[name] if one.generation not in generations]
        apart = [one for one in free if one.cluster not in clusters]
        if not free:
            picked[name] = (
                "all generations with a decision that satisfies the rule are shown already"
                if candidates[name]
                else "no decision of these traces satisfies the rule"
            )
            continue
        one = (apart or free)[0]
        picked[name] = (one, ("cluster", "generation") if apart else ("generation",))
        generations.add(one.generation)
        clusters.add(one.cluster)
    return picked
