"""``draft-oracle pool`` as a user meets it, the numbers of its source, and its figures."""

import json
import re
import warnings
import xml.etree.ElementTree as ET

import pytest
from pool_strategies import POOL
from test_cli import refused, succeeded
from test_figures import words_of

from oracle.figures import pool as figures
from oracle.pool.answer import answer
from oracle.pool.early_exit import savings
from oracle.pool.plan import GIB
from oracle.pool.plan_file import read_plan

POST, POST_POOL, A100 = POOL / "post.toml", POOL / "post-pool.toml", POOL / "a100.toml"

POST_PAGE = """\
Memory pool: 28.70 GiB of usable HBM
bf16         does not fit: 52.0 GB of weights, 48.43 GiB, 19.73 GiB too many
FP8          fits: 26.0 GB of weights, 24.21 GiB; 4.49 GiB left for KV (15.6 % of the HBM); one token does not use 20.49 GiB of the weights
what follows at FP8, the first stated that fits
left open    reserve_gib for activations and graphs is not stated: taken as 0, so pools are upper bounds
left open    KV of a token and contexts of tenants are not stated: the pool is given in bytes, not in tenants
left open    scales of FP8 are not stated: taken as 0, so weights are lower bounds
left open    what a precision costs in quality is not judged
from         bytes and tenants are exact for what is stated; no times
"""  # noqa: E501

POST_POOL_PAGE = """\
Memory pool: 3.80 GiB left for KV by weights and reserve
pool       3.80 GiB for KV
one GiB    takes 1.00 GiB of weights, 26.3 % of the pool; at a full pool each tenant left has to be 1.357 times as fast to make up for it
early exit saves 29.2 % of a step at batch 1; in lockstep 1 % or more up to a batch of 5
left open  KV of a token and contexts of tenants are not stated: the pool is given in bytes, not in tenants
left open  times are not stated: what speed-ups cost is known, what they give is not
left open  acceptance of one GiB is not stated: at most what it would have to be is known
from       bytes and tenants are exact for what is stated; no times
"""  # noqa: E501

A100_LINES = """\
tenants          12 of this mix fit, 0.656 GiB each; 32 are asked for: 20 do not fit
experts          weights that one token does not use take the room of 77 tenants, but a step of the 12 tenants that fit uses 53.9 % of the experts of a layer (by the uniform formula), and the next step others: they cannot be dropped
most tenants     147 at NVFP4 weights, FP8 KV
a / b            a: verifying drafts takes time on top of reading bytes; b: it hides behind reading, a pass takes the longer of reading bytes and computing all its tokens, that of the plain step included; a verdict stands where both agree
draft model 1.7B takes 5.47 GiB, 66.4 % of the pool: 3.17 GiB of weights, and 787.2 MiB (slots for 4 draft tokens in blocks of 16 and KV of its own) for each of the 3 tenants that fit with it, 2.31 GiB; displaces 9 of 12 tenants; at a full pool it does not pay: 0.497 / 0.505 times the tokens (573 → 284 / 289 a second), 0.713 / 0.724 times at the same tenants; pays with no number of tenants; it would need 6.14 / 6.05 tokens a round, more than 5; no size of draft pays
EAGLE-3 head     takes 0.63 GiB, 7.67 % of the pool: 0.47 GiB of weights, and 15.5 MiB (slots for 4 draft tokens in blocks of 16 and KV of its own) for each of the 11 tenants that fit with it, 0.17 GiB; displaces 1 of 12 tenants; at a full pool it pays: 1.477 / 1.557 times the tokens (573 → 846 / 892 a second), 1.518 / 1.600 times at the same tenants; pays with 4 or more tenants; break-even at 1.88 / 1.78 tokens a round (acceptance 0.481 / 0.449) or 2.87 GiB of draft
"""  # noqa: E501


def test_the_numbers_of_the_source():
    """Each number that the post states, to its digits: 52 GB, 28.7 GiB, 26 GB, 3.8 GiB, layer 20 of 48."""
    found = answer(read_plan(POST))
    bf16, fp8 = found.choices
    assert f"{bf16.budget.usable_bytes / GIB:.1f}" == "28.7"
    assert f"{bf16.budget.weights_bytes / 1e9:.0f}" == "52"
    assert not bf16.budget.fits
    assert f"{fp8.budget.weights_bytes / 1e9:.0f}" == "26"
    assert fp8.budget.fits
    assert f"{(fp8.budget.used_weights_bytes / 1e9):.0f}" == "4"
    assert bf16.budget.tenants is fp8.budget.tenants is None
    # "almost nothing left" is more than the pool it calls binding: 26 GB are 24.2 GiB, and no reserve is stated
    pool = read_plan(POST_POOL)
    assert f"{pool.memory.usable_bytes / GIB:.1f}" == "3.8"
    assert pool.memory.usable_bytes < fp8.budget.pool_bytes < 4.5 * GIB
    # one that leaves at layer 20 saves 28 of 48 layers alone and nothing where others need all 48
    exits = pool.early_exit
    assert (exits.layers, exits.exit_layers) == (48, (20,))
    alone, crowd = savings(exits, [1, 32]).lockstep
    assert alone == pytest.approx(0.5 * 28 / 48)
    assert crowd < 1e-9


def test_the_page_comes_first():
    assert succeeded("pool", POST).startswith(POST_PAGE)
    assert succeeded("pool", POST_POOL).startswith(POST_POOL_PAGE)
    page = succeeded("pool", A100)
    assert A100_LINES in page
    for title in ("Budget of 67.06 GiB", "KV of the tenants", "What each speed-up costs", "Early exit", "Parameters"):
        assert title in page


def test_json_at_full_precision():
    tables = json.loads(succeeded("pool", "--json", "-", stdin=A100.read_text("utf-8")))["tables"]
    assert list(tables) == ["pool", "pool_budget", "pool_tenants", "pool_speedups", "pool_early_exit", "pool_stated"]
    for row in tables["pool_budget"]["rows"]:
        parts = ("used_weights_gib", "idle_weights_gib", "reserve_gib", "kv_gib", "unused_gib")
        assert sum(row[part] for part in parts) == pytest.approx(72e9 / GIB, rel=1e-15)
    fewest, most = (tables["pool_budget"]["rows"][i]["tenants"] for i in (0, -1))
    assert (fewest, most) == (12, 147)
    for row in tables["pool_speedups"]["rows"]:
        assert row["gain"] == pytest.approx(row["tokens_per_s_with"] / row["tokens_per_s_without"])
        assert (row["gain"] > 1) == (row["acceptance_length"] > row["length_needed"])


def test_markdown():
    page = succeeded("pool", "--markdown", POST)
    assert page.startswith("## Memory pool: 28.70 GiB of usable HBM\n")


def test_nothing_fits():
    text = POST.read_text("utf-8").replace("28.7", "2.5") + '[[speedup]]\nname = "d"\ndraft_length = 2\n'
    page = succeeded("pool", "-", stdin=text)
    assert "nothing fits at any precision stated, so speed-ups have no pool to take from" in page
    page = succeeded("pool", "-", stdin=A100.read_text("utf-8").replace("context_tokens = ", "context_tokens = 8000"))
    assert "not one tenant fits at any precision stated, so speed-ups have no pool to take from" in page


def test_refusals():
    error = refused("pool", "-", stdin='format = "draft-oracle/pool"\nversion = 1\n[hardware]\nusable_gib = -1\n')
    assert error.startswith("error: ")
    assert "standard input: hardware.usable_gib is -1; it is a finite number above 0 and at most 1e+18" in error
    assert "cannot be read (No such file or directory)" in refused("pool", POOL / "none.toml")
    assert "would replace the input" in refused("pool", POST, "-o", POOL)


def test_the_folder_appears_whole(tmp_path):
    folder = tmp_path / "out"
    printed = succeeded("pool", A100, "-o", folder)
    pictures = {"memory.svg", "draft-size.svg", "early-exit.svg"}
    assert {path.name for path in folder.iterdir()} == {"tables.md", "tables.json", *pictures}
    assert A100_LINES in printed
    provenance = json.loads((folder / "tables.json").read_text("utf-8"))["provenance"]
    assert [each["name"] for each in provenance["inputs"]] == ["a100.toml"]
    succeeded("pool", POST, "-o", folder, "--overwrite")
    assert {path.name for path in folder.iterdir()} == {"tables.md", "tables.json", "memory.svg"}


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (figures.memory_bars, {"with EAGLE-3 head", "147 tenants", "speed-up", "arithmetic on the plan as stated"}),
        (
            figures.tenants_by_draft_size,
            {"tenants that fit", "EAGLE-3 head", "model output for the plan", "bands: up to hidden"},
        ),
        (figures.early_exit_by_batch, {"lockstep", "batch compacted after each exit", "12 tenants", "model output"}),
    ],
)
def test_figures(draw, words, tmp_path):
    found = answer(read_plan(A100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = draw(found, tmp_path / "a.svg"), draw(found, tmp_path / "b.svg")
    assert first.read_bytes() == second.read_bytes()
    ET.parse(first)
    shown = words_of(first)
    assert all(word in shown for word in words), shown
    assert not re.search(r"\bnan\b", shown)


def test_fewer_tenants_asked_for_than_fit_are_judged_first():
    text = A100.read_text("utf-8")
    for count in re.findall(r"^count = \d+", text, re.MULTILINE):
        text = text.replace(count, "count = 1", 1)
    page = succeeded("pool", "-", stdin=text)
    (line,) = [line for line in page.splitlines() if line.startswith("EAGLE-3 head  ")]
    assert "tenants asked for it does not pay: 0.9" in line
    assert line.index("tenants asked for it") < line.index("at a full pool it pays")
    assert "pays in 6 of 6" not in page
    assert "unique experts were not measured: the uniform formula for independent tokens stands in" in page


def test_every_precision_and_early_exit_where_tenants_fit():
    page = succeeded("pool", A100)
    assert "all precisions   EAGLE-3 head pays in 6 of 6 that can be judged" in page
    assert "at the 12 tenants that fit 0.0404 % in lockstep" in page
    assert "n-gram lookup pays in 4 of 6 that can be judged: bf16 weights, FP8 KV; FP8 weights, bf16 KV; " in page
