"""What ``draft-oracle crossover`` is given: options checked against one another, assumptions put into words."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oracle.errors import Faults, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from oracle.crossover.answer import Crossover
    from oracle.crossover.costs import Scaling
    from oracle.crossover.study import Question
    from oracle.crossover.traffic import Traffic
    from oracle.latency.model import LatencyModel

_BY_FORMULA = ("num_experts", "top_k", "overlap")
_OF_TRACES = ("tenants", "match_is")


def check(given: Mapping[str, Any]) -> None:
    """Refuse options that contradict one another or leave the question open."""
    faults = Faults()
    options = {name: f"--{name.replace('_', '-')}" for name in given}
    if given["traces"]:
        for name in _BY_FORMULA:
            if given[name] is not None:
                faults.add(f"{options[name]} goes with the formula; the traces hold it, leave one of them out")
    else:
        for name in ("num_experts", "top_k", "context_len"):
            if given[name] is None:
                faults.add(f"without traces experts come from the formula: give {options[name]}, or name traces")
        if given["match_prob"] is None and given["acceptance"] is None:
            faults.add("without traces nothing tells the acceptance: give --match-prob or --acceptance, or name traces")
        for name in _OF_TRACES:
            if given[name] is not None:
                faults.add(f"{options[name]} goes with traces, and none are named")
    if given["match_prob"] is not None and given["acceptance"] is not None:
        faults.add("--match-prob and --acceptance both say the acceptance; leave one of them out")
    if given["acceptance_is"] is not None and given["acceptance"] is None:
        faults.add("--acceptance-is goes with --acceptance, which is not given; add it")
    _check_prices(given, faults)
    faults.raise_if_any()


def _check_prices(given: Mapping[str, Any], faults: Faults) -> None:
    if (given["kv_bytes"] is None) != (given["bandwidth_gb"] is None):
        faults.add("--kv-bytes and --bandwidth-gb go together: the KV of a token over the bandwidth; give both or none")
    if given["kv_bytes"] is not None and given["kv_read_ms"] is not None:
        faults.add("--kv-read-ms and --kv-bytes both say what reading a token of context takes; leave one of them out")


def scaling_of(given: Mapping[str, Any]) -> "Scaling":
    """Gather how cost is extrapolated."""
    from oracle.crossover.costs import Scaling  # noqa: PLC0415

    names = ("token_ms", "floor_ms", "draft_request_ms", "off_ms")
    kv_read_ms = _kv_bandwidth_ms(given) if given["kv_read_ms"] is None else given["kv_read_ms"]
    return Scaling(by=given["scale_by"], kv_read_ms=kv_read_ms, **{name: given[name] for name in names})


def _kv_bandwidth_ms(given: Mapping[str, Any]) -> float | None:
    """Time to read the KV of a token at the bandwidth; None where they are not given."""
    if given["kv_bytes"] is None:
        return None
    return float(given["kv_bytes"]) / (float(given["bandwidth_gb"]) * 1e6)


def readings(
    given: Mapping[str, Any], model: "LatencyModel", lengths: Sequence[int], answer: "Crossover"
) -> "list[tuple[str, Crossover]]":
    """Answer again with other times to read a token of context of a further request; none where all is measured."""
    from dataclasses import replace  # noqa: PLC0415

    from oracle.crossover.answer import crossover  # noqa: PLC0415
    from oracle.crossover.costs import FIRST_REQUEST  # noqa: PLC0415

    if not answer.extrapolated.any():
        return []
    scaling, at_bandwidth = scaling_of(given), _kv_bandwidth_ms(given)
    asked: list[tuple[str, Any]] = [("0 ms", 0.0), *_told(given, model, lengths)]
    asked += [(f"{at_bandwidth:.3g} ms, the bandwidth", at_bandwidth)] if at_bandwidth is not None else []
    if given["kv_read_ms"] is not None:
        asked.append((f"{given['kv_read_ms']:.3g} ms, as given", given["kv_read_ms"]))
    asked.append(("as much as for the first request", FIRST_REQUEST))
    options: dict[str, Any] = {"kv_tokens": given["kv_tokens"], "noise": given["noise"] / 100}
    return [
        (name, crossover(answer.traffic, model, lengths, scaling=replace(scaling, kv_read_ms=value), **options))
        for name, value in asked
    ]


def _told(given: Mapping[str, Any], model: "LatencyModel", lengths: Sequence[int]) -> "list[tuple[str, float]]":
    """Give both ends of the interval of what several measured batch sizes tell, where it is one for all K."""
    from oracle.crossover.context_growth import context_growth  # noqa: PLC0415

    told = {context_growth(model, k) for k in (0, *lengths)}
    one = told.pop()
    if told or one is None or one.interval is None or scaling_of(given).kv_read_ms is not None:
        return []
    low, high = max(0.0, one.interval.low), max(0.0, one.interval.high)
    ends = [("lower", low)] if low > 0 else []
    return [
        (f"{ms:.3g} ms, the {end} end of what the measured batch sizes tell", ms)
        for end, ms in [*ends, ("upper", high)]
    ]


def _context_said(model: "LatencyModel", scaling: "Scaling", lengths: Sequence[int]) -> str:
    """Say what reading a token of context of a further request takes, and where that is from."""
    from oracle.crossover.context_growth import context_growth  # noqa: PLC0415

    if scaling.kv_read_ms is not None:
        return f"{scaling.kv_read_ms:g} ms"
    told = [each for k in lengths if (each := context_growth(model, k)) is not None]
    if not told:
        return "nothing (--kv-read-ms)"
    least, most = min(told, key=lambda each: each.ms), max(told, key=lambda each: each.ms)
    sizes = ", ".join(map(str, most.batch_sizes))
    takes = f"{most.ms:.3g} ms" if least.ms == most.ms else f"{least.ms:.3g} to {most.ms:.3g} ms by K"
    if most.slope_ms < 0:
        return f"nothing: c falls over the batch sizes measured ({sizes}), and reading takes no negative time"
    if least.ms == most.ms and most.interval is not None:
        takes += f" [{max(0.0, most.interval.low):.3g}; {most.interval.high:.3g}]"
    unknown = "" if most.interval is not None else ", no interval: the model file keeps no errors"
    return f"{takes}, the slope of c over the batch sizes measured ({sizes}){unknown}"


def _drafting_said(model: "LatencyModel", scaling: "Scaling", lengths: Sequence[int]) -> str:
    """Say what drafting for a further request takes, and where that is from."""
    from oracle.crossover.costs import draft_request  # noqa: PLC0415

    each = [draft_request(model, k, scaling) for k in lengths if k]
    if not max(each, default=0.0):
        told = "as far as was measured" if len(model.blocks) > 1 and scaling.draft_request_ms is None else ""
        return f"no longer for more requests{told and f', {told}'} (--draft-request-ms)"
    takes = f"{min(each):.3g}" + ("" if min(each) == max(each) else f" to {max(each):.3g}")
    origin = "the two largest batch sizes measured" if scaling.draft_request_ms is None else "--draft-request-ms"
    return f"{takes} ms a token for each further request ({origin}) more"


def question_of(given: Mapping[str, Any], mean_length: "NDArray[np.float64] | None") -> "Question":
    """Gather what is asked of recorded traffic."""
    from oracle.crossover.study import Question  # noqa: PLC0415

    return Question(
        most=given["max_batch_size"],
        mean_length=mean_length,
        scaling=scaling_of(given),
        noise=given["noise"] / 100,
        **{name: given[name] for name in ("tenants", "paths", "seed", "context_len", "kv_tokens")},
    )


def lengths_of(model: "LatencyModel", k_max: int | None, carried: int | None) -> tuple[list[int], list[str]]:
    """Settle the draft lengths: those that some batch size prices, up to what is asked and what the traces carry.

    Raises
    ------
    InputError
        None is left.
    """
    known = sorted({k for block in model.blocks for k in block.draft_lengths if k})
    most = min(each for each in (k_max, carried, known[-1] if known else 0) if each is not None)
    lengths = [k for k in known if k <= most]
    if not lengths:
        raise InputError(
            f"no draft length K ≥ 1 up to {most} can be priced; the latency model prices K = "
            f"{', '.join(map(str, known)) or 'none'}: raise --k-max, or time such rounds"
        )
    notes = []
    if k_max is None and carried is not None and carried < known[-1]:
        notes.append(f"K goes to {most}: the traces carry no longer draft (the model goes to {known[-1]})")
    if k_max is not None and k_max > most:
        notes.append(f"K goes to {most}, not {k_max}: neither model nor traces cover more")
    return lengths, notes


def mean_lengths(given: Mapping[str, Any], k_max: int) -> "tuple[NDArray[np.float64] | None, list[str]]":
    """Read what is given in place of the traces' acceptance, as mean acceptance length by K; None: the traces'."""
    import numpy as np  # noqa: PLC0415

    from oracle.acceptance import mixed, read_acceptance  # noqa: PLC0415
    from oracle.crossover.traffic import equal_match_lengths  # noqa: PLC0415

    if given["match_prob"] is not None:
        said = f"acceptance: a match probability of {given['match_prob']:g} at every position (--match-prob), as given"
        return equal_match_lengths(given["match_prob"], k_max), [said]
    if given["acceptance"] is None:
        return None, ["acceptance: expected, from the match probabilities of the traces"]
    acceptance = mixed(read_acceptance(given["acceptance"], given["acceptance_is"]))
    curves = {k: acceptance.at(k) for k in range(1, k_max + 1)}
    lengths = [1.0, *(np.nan if curve is None else curve.mean_length(k) for k, curve in curves.items())]
    missing = [str(k) for k, curve in curves.items() if curve is None]
    found = [*acceptance.notes, "acceptance: as measured (--acceptance), its sampling errors are not in the intervals"]
    if missing:
        found.append(f"K = {', '.join(missing)} are left out: no acceptance at that depth")
    return np.array(lengths), found


def formula_traffic(given: Mapping[str, Any], model: "LatencyModel") -> "tuple[Traffic, list[int], list[str]]":
    """Make traffic without traces; give it with the draft lengths and what to say."""
    from oracle.crossover.traffic import by_formula  # noqa: PLC0415

    lengths, notes = lengths_of(model, given["k_max"], None)
    mean_length, said = mean_lengths(given, max(lengths))
    assert mean_length is not None
    traffic = by_formula(
        mean_length,
        given["context_len"],
        num_experts=given["num_experts"],
        top_k=given["top_k"],
        most=given["max_batch_size"],
        overlap=given["overlap"] or 0.0,
    )
    formula = (
        "experts: not measured; the uniform formula for independent tokens, which real routing stays below by a half "
        "within one request and by less over many"
    )
    return traffic, lengths, [*notes, *said, formula] if given["num_experts"] else [*notes, *said]


def assumptions(answer: "Crossover", model: "LatencyModel", scaling: "Scaling") -> Sequence[str]:
    """Say on what prices rest that were not measured."""
    from oracle.crossover.costs import ASSUMED, BETWEEN, EXTRAPOLATED, token_slope  # noqa: PLC0415

    basis = answer.costs.basis[:, list(answer.lengths)]
    said = []
    if (basis == ASSUMED).any():
        said.append(f"assumed: a K = 0 round has a base time of {scaling.off_ms:g} ms (--off-ms); measure it")
    if (basis == BETWEEN).any():
        said.append("between two measured batch sizes coefficients lie on a straight line, which cost need not follow")
    if not (basis == EXTRAPOLATED).any():
        return said
    blocks = model.blocks
    measured = ", ".join(str(block.batch_size or 1) for block in blocks)
    slope = token_slope(blocks[-1]) if scaling.token_ms is None else scaling.token_ms
    origin = "slope of beta0 in the model" if scaling.token_ms is None else "--token-ms"
    if scaling.token_ms is None and len(blocks) > 1:
        origin = "slope of beta0 within the largest batch size; between the two largest where both have the m"
    kv = _context_said(model, scaling, answer.lengths)
    floor = f"at least {scaling.floor_ms:g} ms with them (--floor-ms)" if scaling.floor_ms else "no compute floor"
    by = "number of tokens in the pass" if scaling.by == "tokens" and len(blocks) == 1 else "draft length"
    said.append(
        f"extrapolated: batch size {measured} was timed; beyond it beta0 and alpha go by the {by}, a further token "
        f"takes {slope:.4g} ms besides experts ({origin}), {floor}; a "
        f"token of context of a further request takes {kv}; drafting takes "
        f"{_drafting_said(model, scaling, answer.lengths)}"
    )
    said.append(
        "this shows where to measure, not what would be measured: time rounds at such batch sizes and fit again"
    )
    return said
