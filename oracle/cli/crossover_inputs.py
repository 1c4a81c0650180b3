"""What ``draft-oracle crossover`` is given: options checked against one another, and what is asked with them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oracle.errors import Faults, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from oracle.crossover.costs import Scaling
    from oracle.crossover.study import Question
    from oracle.crossover.traffic import Traffic
    from oracle.latency.model import LatencyModel

_BY_FORMULA = ("num_experts", "top_k", "overlap")
FROM_TRACES = "acceptance: expected, from the match probabilities of the traces"
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


def further_readings(given: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Give the times to read a token of context of a further request that were asked for, and what to call them."""
    at_bandwidth = _kv_bandwidth_ms(given)
    asked = [] if at_bandwidth is None else [(f"{at_bandwidth:.3g} ms (the bandwidth)", at_bandwidth)]
    if given["kv_read_ms"] is not None:
        asked.append((f"{given['kv_read_ms']:.3g} ms (as given)", float(given["kv_read_ms"])))
    return asked


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
        return None, [FROM_TRACES]
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
