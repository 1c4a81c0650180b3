"""``draft-oracle levers`` as a user meets it, and its figures."""

import json
import warnings
import xml.etree.ElementTree as ET

import pytest
from levers_strategies import LEVERS, example, traffic
from test_cli import refused, succeeded
from test_figures import words_of

from oracle.figures import levers as figures
from oracle.figures import levers_maps as maps
from oracle.figures.levers_schedule import schedule_over_slots
from oracle.levers.answer import answer, plan
from oracle.levers.schedule import schedule
from oracle.levers.traffic_file import series_from_text

DEPLOYMENT = LEVERS / "deployment.toml"
AGENT = LEVERS / "coding-agent.toml"

AGENT_PAGE = """\
Serving levers: 24 requests in flight, prefix share 0.85, repetitiveness 0.92, 12,000 → 300 tokens in 16,384 of context
set                    FP8, speculation on, prefix cache on (8 draft tokens): 0.06397 ms a token
why                    4.78 % dearer is the next best, NVFP4, speculation on, prefix cache on; all 24 requests decode together
draft length           stated: 8; of 1 … 16 the model would draft 16 (FP8, speculation on, prefix cache on), 9.62 % cheaper
admission              as many requests as there are and fit: a cap would not lower the cost
certain                no intervals were given on repetitiveness, prefix share or eta: values taken as exact
in the source's order  literal: NVFP4, speculation on, prefix cache on, 4.78 % dearer; speculation-aware: the same
flips with concurrency 1 – 64: FP8, speculation on, prefix cache on; from 65 on: FP8, speculation on, prefix cache on, at most 48 admitted
without a cap          1 – 345: FP8, speculation on, prefix cache on; from 346 on: FP16, speculation on, prefix cache on
with repetitiveness    0.000 – 0.126: NVFP4, speculation off, prefix cache on; 0.127 – 0.858: NVFP4, speculation on, prefix cache on; 0.859 – 1.000: FP8, speculation on, prefix cache on
with the prefix share  0.000 – 0.032: FP8, speculation on, prefix cache off; 0.033 – 1.000: FP8, speculation on, prefix cache on
look again             after every change of precision or draft length; with concurrency above 64, repetitiveness below 0.859, prefix share below 0.033
from                   a closed-form model with the parameters stated below; none of them was fitted from measurements
"""  # noqa: E501

DAY_PAGE = """\
Serving levers over 24 slots
not settled in 2 of 24 slots (01:00, 02:00) a step leaves many experts out, and counting those it goes to sets other levers; [assumptions] reads_grow = true counts them
precision   NVFP4 in all slots
cost        0.08897 ms a token on average
against     0.09813 for the best that is never touched (NVFP4, speculation on, prefix cache off): 9.34 % less
hysteresis  costs 0 % over levers that follow their break-evens at once
admission   not capped; where requests may wait, caps of 96 in 16 of 24 slots, with the levers named there, cost 0.08580 a token, 3.56 % less
bound       0.08897 if the precision too could change in every slot
switch      speculation off at 07:00, 187 requests in flight
switch      prefix cache off at 08:00, 239 requests in flight
switch      speculation on at 21:00, 150 requests in flight
switch      prefix cache on at 21:00, 150 requests in flight
undecided   speculation in 2 slots (01:00, 02:00)
"""  # noqa: E501


def test_the_page_comes_first():
    page = succeeded("levers", DEPLOYMENT, "--traffic", AGENT)
    assert page.startswith(AGENT_PAGE)
    for title in ("Cost per token of every configuration", "Where each lever begins to pay", "Parameters"):
        assert title in page


def test_a_day_is_a_schedule():
    assert succeeded("levers", DEPLOYMENT, "--traffic", LEVERS / "day.csv").startswith(DAY_PAGE)


def test_json_at_full_precision_and_price():
    text = DEPLOYMENT.read_text("utf-8").replace("[hardware] ", "[hardware]\nprice_per_hour = 36\n#")
    text += "\n[traffic]\n" + AGENT.read_text("utf-8")
    tables = json.loads(succeeded("levers", "--json", "-", stdin=text))["tables"]
    assert list(tables) == [
        "levers",
        "levers_cost",
        "levers_break_even",
        "levers_by_batch",
        "levers_procedure",
        "levers_moves",
        "levers_precision",
        "levers_draft_length",
        "levers_autocorrelation",
        "levers_assumptions",
        "levers_parameters",
    ]
    best = tables["levers_cost"]["rows"][0]
    assert best["cost_ms"] == best["decode_ms"] + best["prefill_ms"] + best["cache_ms"]
    assert best["price_per_million"] == pytest.approx(10 * best["cost_ms"])
    assert {row["moves"] for row in tables["levers_autocorrelation"]["rows"] if row["reading"] == "renewal"} == {
        "rises"
    }
    falls = [row for row in tables["levers_autocorrelation"]["rows"] if row["reading"] != "renewal"]
    assert {row["moves"] for row in falls} == {"falls"}


def test_measurements_replace_what_was_stated():
    page = succeeded("levers", DEPLOYMENT, "--traffic", AGENT, "--measured", LEVERS / "measured.csv")
    assert "fitted from measurements: eta and overhead of a round; the other parameters are as stated below" in page
    assert "eta from measured acceptance" in page
    assert "0.7087 [0.6951; 0.7225]" in page
    assert "at FP8: speculation on, prefix cache on" in page


def test_tenants_side_by_side():
    rows = "tenant,concurrency,prefix_share,repetitiveness,prompt_tokens,output_tokens,context_tokens\n"
    rows += "agent\x1b[31m,24,0.85,0.92,12000,300,16384\nchat,64,0.05,0.05,600,400,16384\n"
    page = succeeded("levers", DEPLOYMENT, "--traffic", "-", stdin=rows)
    assert page.startswith("Serving levers by traffic")
    assert "\x1b" not in page
    assert "FP8, speculation on, prefix cache on" in page
    assert "NVFP4, speculation off, prefix cache off" in page


def test_levers_inherited_from_an_earlier_deployment(tmp_path):
    """Validated at FP16 alone, kept after NVFP4 became available."""
    text = DEPLOYMENT.read_text("utf-8")
    busy = "\n[traffic]\nconcurrency = 256\nprefix_share = 0.4\nrepetitiveness = 0.35\n"
    busy += "prompt_tokens = 8192\noutput_tokens = 512\ncontext_tokens = 16384\n"
    first = text.index('[[precision]]\nname = "FP8"')
    (tmp_path / "now.toml").write_text(text + busy, "utf-8")
    (tmp_path / "then.toml").write_text(text[:first] + busy, "utf-8")
    page = succeeded("levers", tmp_path / "now.toml", "--earlier", tmp_path / "then.toml")
    change = page[page.index("Levers inherited from FP16, speculation on") :]
    (line,) = [line for line in change.splitlines() if line.strip().startswith("speculation")]
    assert line.split() == ["speculation", "on", "0.293", "0.450", "0.350", "-8.0", "+10.2", "SWITCH", "OFF"]
    error = refused("levers", DEPLOYMENT, "--traffic", LEVERS / "day.csv", "--earlier", tmp_path / "then.toml")
    assert error == "error: --earlier compares with one regime now; give traffic as values, not as a series\n"


def test_the_earlier_deployment_states_how_it_was_set(tmp_path):
    running = '\n[running]\nprecision = "FP16"\nspeculation = false\nprefix_cache = true\n'
    then = tmp_path / "then.toml"
    then.write_text(DEPLOYMENT.read_text("utf-8") + running, "utf-8")
    page = succeeded("levers", DEPLOYMENT, "--traffic", AGENT, "--earlier", then)
    change = page[page.index("Levers inherited from FP16, speculation off, prefix cache on") :]
    lines = [line.split() for line in change.splitlines()]
    assert next(line for line in lines if line[:1] == ["speculation"])[-2:] == ["SWITCH", "ON"]
    assert next(line for line in lines if line[:2] == ["prefix", "cache"])[-2:] == ["stays", "on"]
    assert "was: as [running] states" in change
    then.write_text(then.read_text("utf-8").replace('"FP16"\nspec', '"FP12"\nspec').replace("= false", "= 0"), "utf-8")
    error = refused("levers", DEPLOYMENT, "--traffic", AGENT, "--earlier", then)
    assert "running.precision is FP12; it is one of FP16, FP8, NVFP4" in error
    assert "running.speculation is a number; it is true or false" in error


def test_the_cap_is_said_first_where_it_pays():
    busy = AGENT.read_text("utf-8").replace("concurrency = 24", "concurrency = 500")
    page = succeeded("levers", DEPLOYMENT, "--traffic", "-", stdin=busy)
    said = page.splitlines()[1]
    assert said.split(None, 1)[1].startswith(
        "admit at most 48: FP8, speculation on, prefix cache on (8 draft tokens): 0.057"
    )
    assert said.endswith(
        "without a cap: FP16, speculation on, prefix cache on (8 draft tokens): 0.12711 ms a token, 122 % dearer"
    )


def test_an_eta_above_one_is_said_and_nothing_is_certain(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("precision,acceptance,rounds\nFP16,0.5,1000\nNVFP4,0.6,1000\n", "utf-8")
    page = succeeded("levers", DEPLOYMENT, "--traffic", AGENT, "--measured", path)
    assert "eta of NVFP4 was measured at 1.2000, above 1, where this model ends: it counts as 1" in page
    assert "certain                nothing: an eta was measured above 1" in page
    assert "everywhere within the intervals" not in page


def test_intervals_leave_a_lever_undecided():
    busy = "concurrency = 32\nprefix_share = 0.4\nrepetitiveness = 0.15\nrepetitiveness_low = 0.1\n"
    busy += "repetitiveness_high = 0.2\nprompt_tokens = 8192\noutput_tokens = 512\ncontext_tokens = 16384\n"
    page = succeeded("levers", DEPLOYMENT, "--traffic", "-", stdin=busy)
    assert (
        "at NVFP4: speculation undecided, prefix cache on; within the intervals, with all experts read or those "
        "counted that a step goes to, 2 configurations may be the cheapest: NVFP4, speculation off, prefix cache on; "
        "NVFP4, speculation on, prefix cache on"
    ) in page


def test_refusals():
    error = refused("levers", DEPLOYMENT)
    assert error == f"error: {DEPLOYMENT}: states no traffic; add [traffic], or give --traffic FILE\n"
    error = refused("levers", DEPLOYMENT, "--traffic", "-", stdin="concurrency = 3\n")
    assert error.startswith("error: 5 faults\n1. standard input: prefix_share is missing")
    error = refused("levers", "-", "--traffic", "-", stdin="")
    assert error == "error: stdin (-) can be read once only; give a file for the others\n"
    error = refused("levers", LEVERS / "none.toml", "--traffic", AGENT)
    assert error.startswith(f"error: {LEVERS / 'none.toml'}: cannot be read (No such file or directory)")


def test_the_folder_appears_whole(tmp_path):
    folder = tmp_path / "out"
    printed = succeeded("levers", DEPLOYMENT, "--traffic", AGENT, "-o", folder)
    pictures = {"repetitiveness", "prefix-share", "precision", "decisions", "regret", "matches"}
    assert {path.name for path in folder.iterdir()} == {"tables.md", "tables.json", *(f"{p}.svg" for p in pictures)}
    assert printed.startswith(AGENT_PAGE)
    provenance = json.loads((folder / "tables.json").read_text("utf-8"))["provenance"]
    assert [each["name"] for each in provenance["inputs"]] == ["deployment.toml", "coding-agent.toml"]
    succeeded("levers", DEPLOYMENT, "--traffic", LEVERS / "day.csv", "-o", folder, "--overwrite")
    assert {path.name for path in folder.iterdir()} == {"tables.md", "tables.json", "schedule.svg"}
    assert "would replace the input" in refused("levers", DEPLOYMENT, "--traffic", AGENT, "-o", LEVERS)


def drawings():
    found = answer(example(), traffic(**{"C": 24.0, "rho": 0.85, "r": 0.92, "L_in": 12000.0, "L_out": 300.0}))
    (day,) = series_from_text((LEVERS / "day.csv").read_text("utf-8"), "day.csv", {})
    planned = plan(example(), day, schedule(example(), day.regime))
    return {
        "repetitiveness": (lambda p: figures.repetitiveness_by_concurrency(found, p), {"observed r = 0.92, here"}),
        "prefix": (lambda p: figures.prefix_share_by_batch(found, p), {"observed rho = 0.85, here", "NVFP4 449"}),
        "precision": (
            lambda p: figures.precision_by_concurrency(found, p),
            {"decode cost over FP16's", "24 requests, here"},
        ),
        "matches": (lambda p: figures.round_length_by_match(found, p), {"renewal, x = 0.4", "pays above 1.07 (FP8)"}),
        "decisions": (lambda p: maps.decision_map(found, p), {"FP8: speculation + prefix cache"}),
        "regret": (lambda p: maps.regret_map(found, p), {"% dearer than the joint minimum"}),
        "schedule": (lambda p: schedule_over_slots(planned, p), {"requests in flight", "00:00"}),
    }


@pytest.mark.parametrize(
    "name", ["repetitiveness", "prefix", "precision", "matches", "decisions", "regret", "schedule"]
)
def test_figures(name, tmp_path):
    draw, words = drawings()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = draw(tmp_path / "a.svg"), draw(tmp_path / "b.svg")
    assert first.read_bytes() == second.read_bytes()
    ET.parse(first)
    shown = words_of(first)
    assert all(word in shown for word in words), shown
    assert "nan" not in shown
