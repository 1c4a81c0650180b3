"""Deployments and regimes for tests of serving levers: the shipped example, and random ones."""

import functools
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from oracle.levers.deployment import Deployment, Precision, Speculation
from oracle.levers.deployment_file import read_deployment
from oracle.levers.regime import make_regime

LEVERS = Path(__file__).parents[1] / "cases" / "levers"


@functools.cache
def example() -> Deployment:
    return read_deployment(LEVERS / "deployment.toml").deployment


def traffic(C=32.0, rho=0.4, r=0.35, L_in=8192.0, L_out=512.0, L_ctx=16384.0):
    """A regime, in the letters of the equations."""
    return make_regime(
        concurrency=C,
        prefix_share=rho,
        repetitiveness=r,
        prompt_tokens=L_in,
        output_tokens=L_out,
        context_tokens=L_ctx,
    )


def having_eta(deployment, **etas):
    return replace(deployment, precisions=tuple(replace(p, eta=etas.get(p.name, p.eta)) for p in deployment.precisions))


def plain(deployment, precision=None):
    """What the naive twin takes."""
    how = deployment.speculation
    d = {
        "hbm": deployment.hbm_bytes,
        "BW": deployment.bandwidth_bytes_per_s,
        "N": deployment.parameters,
        "N_read": deployment.parameters_read,
        "kv": deployment.kv_bytes_per_token,
        "c_pre": deployment.prefill_ms_per_token,
        "gamma": deployment.cache_ms_per_token,
        "kv_read": deployment.kv_read_share,
        "host": how.round_host_ms,
        "g": how.draft_length,
        "g0": how.reference_draft_length,
        "B_v": how.verify_batch,
        "a0": how.base_match,
        "grows": deployment.reads_grow,
        "X": deployment.expert_parameters,
        "E": deployment.experts,
        "k": deployment.experts_per_token,
    }
    precisions = [{"b": p.bytes_per_parameter, "eta": p.eta, "kappa": p.kappa} for p in deployment.precisions]
    return d, precisions


def letters(regime):
    """A single regime in the letters of the equations."""
    v = regime.values()
    names = ("C", "rho", "r", "L_in", "L_out", "L_ctx")
    return dict(zip(names, v.values(), strict=True))


shares = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))


@st.composite
def regimes(draw):
    L_in = draw(st.floats(16, 16384))
    return traffic(
        draw(st.floats(1, 4096)),
        draw(shares),
        draw(shares),
        L_in,
        draw(st.floats(16, 4096)),
        L_in + draw(st.floats(0, 16384)),
    )


@st.composite
def deployments(draw, kv_read=True, most_precisions=4):
    """Deployments in which eta falls with the bytes, as quantisation has it."""
    n = draw(st.integers(1, most_precisions))
    widths = sorted(draw(st.lists(st.floats(0.3, 4), min_size=n, max_size=n, unique=True)), reverse=True)
    etas = sorted(draw(st.lists(st.floats(0.05, 1), min_size=n, max_size=n)), reverse=True)
    kappa = draw(st.floats(0.5, 2))
    return Deployment(
        hbm_bytes=draw(st.floats(5e11, 3e12)),
        bandwidth_bytes_per_s=draw(st.floats(1e12, 1e14)),
        parameters=235e9,
        parameters_read=draw(st.floats(1e9, 235e9)),
        kv_bytes_per_token=draw(st.floats(1e4, 5e5)),
        prefill_ms_per_token=draw(st.floats(1e-4, 1e-1)),
        cache_ms_per_token=draw(st.one_of(st.just(0.0), st.floats(1e-7, 1e-4))),
        precisions=tuple(
            Precision(f"p{i}", b, eta, kappa=kappa) for i, (b, eta) in enumerate(zip(widths, etas, strict=True))
        ),
        speculation=Speculation(
            draw(st.integers(1, 16)),
            draw(st.one_of(st.just(0.0), st.floats(1e-3, 1))),
            draw(st.floats(10, 2000)),
            base_match=draw(st.one_of(st.just(0.0), st.floats(0, 0.3))),
        ),
        kv_read_share=draw(st.sampled_from([0.0, 0.25, 1.0])) if kv_read else 0.0,
    )


@st.composite
def growing(draw, **options):
    """The same, of a mixture whose reads grow with the pass."""
    found = draw(deployments(**options))
    experts = draw(st.integers(2, 256))
    return replace(
        found,
        expert_parameters=found.parameters_read * draw(st.floats(0.01, 1)),
        experts=experts,
        experts_per_token=draw(st.floats(0.5, experts)),
        reads_grow=True,
    )
