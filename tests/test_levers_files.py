"""Deployments, traffic and measurements typed by hand: what is read, and every fault in words, all at once."""

import json
import warnings

import numpy as np
import pytest
from levers_strategies import LEVERS, example

from oracle.errors import Faults, InputError, InputWarning
from oracle.levers.deployment_file import deployment_from_text, read_deployment
from oracle.levers.fitted import Measured
from oracle.levers.measured_file import measured_from_text
from oracle.levers.regime import check_range
from oracle.levers.traffic_file import plain_traffic, series_from_text, traffic_from_text

TOML = (LEVERS / "deployment.toml").read_text("utf-8")
PLAIN = {
    "concurrency": 24.0,
    "prefix_share": 0.85,
    "repetitiveness": 0.92,
    "prompt_tokens": 12000.0,
    "output_tokens": 300.0,
    "context_tokens": 16384.0,
}


def faults_of(call, *arguments):
    with pytest.raises(InputError) as refusal:
        call(*arguments)
    return refusal.value.faults


def test_json_says_the_same_as_toml():
    tree = {
        "format": "draft-oracle/deployment",
        "version": 1,
        "hardware": {"hbm_bytes": 1536e9, "bandwidth_bytes_per_s": 64e12},
        "model": {
            "parameters": 235e9,
            "parameters_read": 235e9,
            "kv_bytes_per_token": 192512,
            "expert_parameters": 227.1e9,
            "experts": 128,
            "experts_per_token": 8,
        },
        "costs": {"prefill_ms_per_token": 0.005, "cache_ms_per_token": 5e-6},
        "speculation": {"draft_length": 8, "round_host_ms": 0.11015625, "verify_batch": 640},
        "precision": [
            {"name": name, "bytes_per_parameter": b, "eta": eta}
            for name, b, eta in (("FP16", 2, 1.0), ("FP8", 1, 0.97), ("NVFP4", 0.5, 0.7))
        ],
        "traffic": PLAIN,
    }
    found = deployment_from_text(json.dumps(tree), "d.json")
    assert found.deployment == example()
    assert dict(found.traffic) == PLAIN


def test_every_key_is_read():
    text = TOML.replace("bandwidth_bytes_per_s", "price_per_hour = 40\nbandwidth_bytes_per_s", 1)
    text = text.replace(
        "draft_length = 8\n", 'draft_length = 6\nbase_match = 0.1\nreading = "renewal"\nautocorrelation = 0.2\n', 1
    )
    text = text.replace("version = 1", "version = 1\nmin_quality = 0.5")
    text = text.replace("eta = ", "quality = 0.9\nkappa = 1.5\neta_low = 0.6\neta_high = 1.0\neta = ")
    text += "\n[assumptions]\nkv_read_share = 0.5\nkv_shared_on_hit = true\nprefill_by_precision = true\n"
    text += "reads_grow = true\n"
    found = deployment_from_text(text, "d.toml").deployment
    how = found.speculation
    assert (found.price_per_hour, found.min_quality, found.kv_read_share) == (40, 0.5, 0.5)
    assert (found.kv_shared_on_hit, found.prefill_by_precision, found.reads_grow) == (True, True, True)
    assert (found.expert_parameters, found.experts, found.experts_per_token) == (227.1e9, 128, 8)
    assert (how.draft_length, how.base_match, how.reading, how.autocorrelation) == (6, 0.1, "renewal", 0.2)
    p = found.precisions[2]
    assert (p.quality, p.kappa, p.eta_interval) == (0.9, 1.5, (0.6, 1.0))


def test_all_faults_of_a_deployment_file_at_once():
    text = TOML.replace("hbm_bytes = 1536e9", 'hbm_bytes = "lots"\ncolour = 1')
    text = text.replace("parameters_read = 235e9", "").replace("draft_length = 8\n", "draft_length = 8.5\n", 1)
    text = text.replace("verify_batch = 640", "verify_batch = -1").replace("eta = 0.97", "eta = 97\neta_low = 0.9")
    text += '\n[assumptions]\nkv_shared_on_hit = 1\n[traffic]\nconcurrency = "many"\nload = 3\n'
    assert faults_of(deployment_from_text, text, "d.toml") == (
        "d.toml: hardware.colour is not a key of a deployment; known here: hbm_bytes, bandwidth_bytes_per_s, "
        "price_per_hour",
        "d.toml: hardware.hbm_bytes is text; it is a number",
        "d.toml: model.parameters_read is missing; add it",
        "d.toml: speculation.draft_length is 8.5; it is a whole number",
        "d.toml: assumptions.kv_shared_on_hit is a number; it is true or false",
        "d.toml: precision FP8: eta_low and eta_high go together; give both or none",
        "d.toml: traffic.load is not a key of traffic; known here: concurrency, prefix_share, repetitiveness, "
        "prompt_tokens, output_tokens, context_tokens, autocorrelation, prefix_share_low, prefix_share_high, "
        "repetitiveness_low, repetitiveness_high, autocorrelation_low, autocorrelation_high, reading",
        "d.toml: traffic.concurrency is text; it is a number",
        "d.toml: speculation.verify_batch is -1; it is a finite number above 0",
        "d.toml: precision FP8: eta is 97; it is a finite number above 0 and at most 1; a percentage is written as a "
        "fraction: 0.97",
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "format = 'other'\nversion = 1",
            "d.toml: format and version are 'other', 1; a deployment says format = \"draft-oracle/deployment\", "
            "version = 1",
        ),
        ("{", "d.toml, line 1, column 2: not JSON"),
        ("= 3", "d.toml: not TOML (Invalid statement (at line 1, column 1)); mend it there, or give JSON"),
        (TOML.replace("[[precision]]", "[[precisions]]"), "d.toml: precisions is not a key of a deployment"),
        (TOML.replace("[costs]", "costs = 3\n[kosten]"), "d.toml: kosten is not a key of a deployment"),
        (TOML.replace("640", "nan"), "d.toml: speculation.verify_batch is nan; it is a finite number"),
        (
            TOML.replace("draft_length = 8\n", "reading = 3\n", 1),
            "d.toml: speculation.reading is a number; it is a text",
        ),
        (
            TOML.replace("verify_batch = 640", 'verify_batch = 640\nreading = "markov"'),
            "d.toml: speculation.reading is 'markov'; known: independent, stationary, gated, renewal",
        ),
        (TOML.replace('name = "FP8"', "name = 8"), "d.toml: precision 2: name is a number; it is a text"),
        (TOML.partition("[[")[0] + "\n[precision]\nx = 1", "d.toml: precision is an object; it is a list of tables"),
    ],
)
def test_deployment_files_that_are_refused(text, fault):
    faults = faults_of(deployment_from_text, text, "d.toml")
    assert any(each.startswith(fault) for each in faults), faults


def test_eta_that_rises_as_bytes_fall_is_warned_of():
    with pytest.warns(InputWarning) as warned:
        deployment_from_text(TOML.replace("eta = 0.97", "eta = 0.5"), "d.toml")
    assert str(warned[0].message) == (
        "d.toml: eta rises from 0.5 (FP8) to 0.7 (NVFP4) as parameters get fewer bytes; quantisation usually costs "
        "acceptance"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_deployment(LEVERS / "deployment.toml")


def test_traffic_as_values():
    (found,) = traffic_from_text((LEVERS / "coding-agent.toml").read_text("utf-8"), "t.toml", {})
    assert not found.is_series
    assert found.regime.at(0).values() == PLAIN
    text = json.dumps({"repetitiveness": 0.5, "repetitiveness_low": 0.4, "repetitiveness_high": 0.6})
    (found,) = traffic_from_text(text, "t.json", PLAIN | {"prefix_share_low": 0.8, "prefix_share_high": 0.9})
    assert (float(found.low.repetitiveness[0]), float(found.high.repetitiveness[0])) == (0.4, 0.6)
    assert (float(found.low.prefix_share[0]), float(found.high.prefix_share[0])) == (0.8, 0.9)


def test_an_interval_does_not_outlive_its_value():
    otherwise = PLAIN | {"repetitiveness_low": 0.9, "repetitiveness_high": 0.95}
    (found,) = traffic_from_text("repetitiveness = 0.2", "t.toml", otherwise)
    assert float(found.low.repetitiveness[0]) == float(found.high.repetitiveness[0]) == 0.2


def test_a_series_by_tenant():
    text = "tenant,slot,concurrency,tokens\na,1,10,5\nb,1,20,1\na,2,30,15\n"
    a, b = series_from_text(text, "t.csv", PLAIN)
    assert (a.tenant, a.slots, list(a.regime.concurrency), list(a.tokens)) == ("a", ("1", "2"), [10, 30], [5, 15])
    assert (b.tenant, b.is_series, list(b.tokens)) == ("b", False, [1])
    assert (a.regime.repetitiveness == 0.92).all()
    rows = [{"slot": 1, "concurrency": 10}, {"slot": 2, "concurrency": 30}]
    for text in (json.dumps(rows), json.dumps({"traffic": rows})):
        (found,) = traffic_from_text(text, "t.json", PLAIN)
        assert (found.slots, found.tenant) == (("1", "2"), None)
        assert np.array_equal(found.regime.concurrency, [10, 30])


def test_slots_in_which_nothing_is_in_flight_are_left_out():
    """Their other values are not looked at: a log says nothing of them."""
    text = "slot,concurrency,tokens,prefix_share\nnight,0,,\nday,30,15,0.5\nevening,20,5,0.4\n4,0,0,\n"
    (found,) = series_from_text(text, "t.csv", PLAIN)
    assert (found.slots, found.idle) == (("day", "evening"), ("night", "4"))
    assert list(found.regime.concurrency) == [30, 20]
    assert list(found.tokens) == [15, 5]
    assert list(found.weights) == [0.75, 0.25]
    (without,) = series_from_text("slot,concurrency\n1,30\n2,20\n", "t.csv", PLAIN)
    assert (without.tokens, list(without.weights)) == (None, [0.5, 0.5])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"prompt_tokens": 12.0},
            "t: prompt_tokens is 12; tokens are counted one by one, not in thousands",
        ),
        (
            {"prompt_tokens": 600.0, "output_tokens": 400.0},
            "t: context_tokens is 16384, far above prompt and output together (1000); it is the mean number of tokens "
            "that a request in flight holds in the KV cache, not the longest context allowed, unless the engine sets "
            "that aside for each",
        ),
    ],
)
def test_traffic_that_is_rarely_meant_is_warned_of(values, said):
    with pytest.warns(InputWarning) as warned:
        plain_traffic(PLAIN | values, "t")
    assert [str(each.message) for each in warned] == [said]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("coding-agent", "open-chat", "saturated-batch"):
            traffic_from_text((LEVERS / f"{name}.toml").read_text("utf-8"), name, {})


def test_a_slip_of_units_is_told():
    text = TOML.replace("1536e9", "1536").replace("64e12", "64").replace("235e9", "235")
    assert faults_of(deployment_from_text, text, "d.toml") == (
        "d.toml: hbm_bytes is 1536, which no deployment has; it is counted in bytes: 1536 GB is 1536e9",
        "d.toml: bandwidth_bytes_per_s is 64, which no deployment has; it is counted in bytes a second: 64 TB/s is "
        "64e12",
        "d.toml: parameters is 235, which no deployment has; it is counted one by one: 235 B is 235e9",
        "d.toml: parameters_read is 235, which no deployment has; it is counted one by one: 22 B is 22e9",
        "d.toml: expert_parameters is 2.271e+11, more than the 235 that a step of a full batch reads, which are all "
        "experts and the rest",
    )


@pytest.mark.parametrize("name", ["prompt_tokens", "output_tokens", "context_tokens"])
def test_more_tokens_than_any_request_has_are_refused(name):
    faults = Faults()
    check_range(name, np.array([1e9, 1e308]), "t.csv", faults)
    with pytest.raises(InputError, match=f"{name} is 1e\\+308; it is a finite number of at least 1 and at most 1,000,"):
        faults.raise_if_any()


def test_all_faults_of_a_series_at_once():
    text = "slot,concurrency,prefix_share,repetitiveness,repetitiveness_low,repetitiveness_high\n"
    text += "a,0.5,0.5,0.3,0.2,0.4\nb,10,40,0.3,0.35,0.4\nc,x,0.5,0.3,0.2,\n"
    text += "d,9,0.5,0.3,0.2,\ne,9\nd,1e18,0.5,0.3,,\n"
    assert faults_of(series_from_text, text, "t.csv", PLAIN) == (
        "t.csv, line 6: 2 cells under 6 columns",
        "t.csv, line 2: concurrency is 0.5; it is a finite number of at least 1",
        "t.csv, line 3: prefix_share is 40; it lies in [0, 1]; a percentage is written as a fraction: 0.4",
        "t.csv, line 3: repetitiveness is 0.3 in [0.35, 0.4]; an interval holds the value and lies in [0, 1]",
        "t.csv, line 4: concurrency is 'x'; it is a number",
        "t.csv, line 4: repetitiveness_low and repetitiveness_high go together; give both or none",
        "t.csv, line 5: repetitiveness_low and repetitiveness_high go together; give both or none",
        "t.csv, line 7: concurrency is 1e+18; it is a finite number of at least 1 and at most 10,000,000",
        "t.csv: slot d is there 2 times; names are unique",
    )
    assert faults_of(series_from_text, "slot,concurrency\na,3\n", "t.csv", {}) == tuple(
        f"t.csv, line 2: {name} is missing; add it there, or under [traffic] of the deployment"
        for name in list(PLAIN)[1:]
    )
    assert faults_of(series_from_text, "concurrency,tokens\n3,1\n4,\n", "t.csv", PLAIN) == (
        "t.csv: tokens are given in some slots only; give them in all of a tenant's or in none",
    )
    assert faults_of(series_from_text, "tenant,concurrency,tokens\na,3,1\nb,4,\n", "t.csv", PLAIN) == (
        "t.csv: tokens are given for some tenants only; give them for all or for none",
    )
    assert faults_of(series_from_text, "concurrency,tokens\n3,1\n4,1e301\n", "t.csv", PLAIN)[0].startswith(
        "t.csv, line 3: tokens is '1e301'; it is a number of at least 0 and at most"
    )
    assert faults_of(series_from_text, "tenant,concurrency\na,0\na,0\n", "t.csv", PLAIN) == (
        "t.csv: concurrency of tenant a is 0 in every slot; nothing is in flight, so nothing is decided",
    )
    assert faults_of(series_from_text, "concurrency,load\n3,1\n", "t.csv", PLAIN)[0].startswith(
        "t.csv: 'load' is not a column here; known: slot, tenant, tokens, concurrency"
    )
    assert faults_of(series_from_text, "concurrency,reading\n3,odd\n", "t.csv", PLAIN) == (
        "t.csv, line 2: reading is 'odd'; known: independent, stationary, gated, renewal",
    )
    assert faults_of(series_from_text, "concurrency\n", "t.csv", PLAIN)[0].startswith("t.csv: holds no rows")
    assert faults_of(plain_traffic, {}, "t")[0] == (
        "t: concurrency is missing; add it there, or under [traffic] of the deployment"
    )


def test_rounds_no_longer_than_steps_are_refused():
    text = "precision,batch_size,step_off_ms,step_on_ms\nFP8,32,7.82,0\nFP8,32,7.34,7.30\nFP8,32,3,3\n"
    told = (
        "a round verifies more positions than a step has: measure whole rounds, and both over enough steps to tell "
        "them apart"
    )
    assert faults_of(measured_from_text, text, "m.csv") == (
        "m.csv, line 2: step_on_ms is 0; no step takes no time",
        f"m.csv, line 3: step_on_ms is 7.3, no more than step_off_ms, 7.34; {told}",
        f"m.csv, line 4: step_on_ms is 3, no more than step_off_ms, 3; {told}",
    )


def test_measurements():
    rows = measured_from_text((LEVERS / "measured.csv").read_text("utf-8"), "m.csv")
    assert rows[0] == Measured("FP16", 32.0, 8, 7.34, 7.82, 0.412, 20000, None)
    text = json.dumps([{"precision": "FP8", "survival": [0.4, 0.2], "rounds": 100}])
    assert measured_from_text(text, "m.json") == (Measured("FP8", survival=(0.4, 0.2), rounds=100),)


def test_all_faults_of_measurements_at_once():
    text = "precision,batch_size,step_off_ms,step_on_ms,acceptance\nFP8,32,3,,1.2\n,,3,4,\nFP8,,,,\nFP8,0.5,-1,3,\n"
    assert faults_of(measured_from_text, text, "m.csv") == (
        "m.csv, line 2: acceptance is 1.2; a share lies in [0, 1]",
        "m.csv, line 2: step_off_ms is there without the other; a step with and one without speculation go together",
        "m.csv, line 3: precision is missing; name one of the deployment's",
        "m.csv, line 3: batch_size is missing; step times need it",
        "m.csv, line 4: nothing was measured; give acceptance, or step_off_ms and step_on_ms, or break_even",
        "m.csv, line 5: batch_size is '0.5'; it is a number of at least 1",
        "m.csv, line 5: step_off_ms is '-1'; it is a number of at least 0",
    )
    wrong = [{"precision": "a", "survival": "x"}, {"precision": "a", "survival": [0.2, 0.4]}]
    assert faults_of(measured_from_text, json.dumps(wrong), "m.json") == (
        "m.json, row 1: survival is a list of numbers, one for each position of the draft",
        "m.json, row 2, position 2: survival rises from 0.2 to 0.4 and never can; if these are conditional rates, "
        "multiply them up to each position",
    )
