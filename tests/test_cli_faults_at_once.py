"""Faults of options and of all files of a serving command come together, with what was likely meant."""

import pytest
from levers_strategies import LEVERS
from test_cli import PUBLISHED, refused

from oracle.errors import InputError, InputWarning
from oracle.levers.deployment_file import deployment_from_text
from oracle.levers.traffic_file import traffic_from_text

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


def test_options_and_four_files_of_levers(tmp_path):
    (tmp_path / "d.toml").write_text(TOML.replace("verify_batch = 640", "verify_batch = -1"), "utf-8")
    (tmp_path / "t.toml").write_text("prefix_share = 40\nconcurrency = 0.5\n", "utf-8")
    (tmp_path / "m.csv").write_text("precision,acceptance\nFP16,1.2\n", "utf-8")
    (tmp_path / "e.toml").write_text(TOML.replace("eta = 0.97", "eta = 1.2"), "utf-8")
    files = [tmp_path / name for name in ("d.toml", "t.toml", "m.csv", "e.toml")]
    asked = (files[0], "--traffic", files[1], "--measured", files[2], "--earlier", files[3])
    said = refused("levers", *asked, "--band", "70", "-o", tmp_path)
    assert said.splitlines() == [
        "error: 7 faults",
        "1. --band is 70; it is percent of the critical batch size, from 0 to 50",
        f"2. {tmp_path}: would replace the input {files[0]}; choose another place",
        f"3. {files[0]}: speculation.verify_batch is -1; it is a finite number above 0",
        f"4. {files[1]}: concurrency is 0.5; it is a finite number of at least 1",
        f"5. {files[1]}: prefix_share is 40; it lies in [0, 1]; a percentage is written as a fraction: 0.4",
        f"6. {files[2]}, line 2: acceptance is 1.2; a share lies in [0, 1]",
        f"7. {files[3]}: precision FP8: eta is 1.2; it is a finite number above 0 and at most 1; a measured ratio "
        "above 1 is outside this model, where it counts as 1; if it is 1.2 %, write 0.012",
    ]
    assert "--band is nan;" in refused("levers", LEVERS / "deployment.toml", "--band", "nan")


def test_what_only_the_deployment_knows_is_checked_with_it(tmp_path):
    (tmp_path / "m.csv").write_text("precision,acceptance\nFP32,0.2\nFP16,1.2\n", "utf-8")
    said = refused("levers", LEVERS / "deployment.toml", "--traffic", "no.toml", "--measured", tmp_path / "m.csv")
    assert said.splitlines()[2:] == [
        f"2. {tmp_path / 'm.csv'}, line 2: 'FP32' is not a precision of this deployment; it has FP16, FP8, NVFP4",
        f"3. {tmp_path / 'm.csv'}, line 3: acceptance is 1.2; a share lies in [0, 1]",
    ]
    assert said.splitlines()[1].startswith("1. no.toml:")


def test_traffic_of_a_deployment_is_checked_with_the_rest_of_it():
    text = TOML.replace("640", "0") + "\n[traffic]\nconcurrency = 0\nprompt_tokens = 12000\ncontext_tokens = 16.4\n"
    assert faults_of(deployment_from_text, text, "d.toml") == (
        "d.toml: traffic: concurrency is 0; it is a finite number of at least 1",
        "d.toml: traffic: context_tokens is 16.4, less than the prompt's 12000; a request holds its whole prompt in "
        "the KV cache; tokens are counted one by one, not in thousands",
        "d.toml: speculation.verify_batch is 0; it is a finite number above 0",
    )


def test_a_file_without_its_first_lines_is_checked_all_the_same():
    text = TOML.replace("version = 1", "").replace("640", "0")
    assert faults_of(deployment_from_text, text, "d.toml") == (
        "d.toml: format and version are 'draft-oracle/deployment', None; a deployment says format = "
        '"draft-oracle/deployment", version = 1',
        "d.toml: speculation.verify_batch is 0; it is a finite number above 0",
    )
    other = 'format = "draft-oracle/pool"\nversion = 1\n'
    assert len(faults_of(deployment_from_text, other, "d.toml")) == 1  # nothing else of it would mean anything


def test_letters_of_the_equations_are_told_their_names():
    text = "rho = 40\nC = 24\nL = 3\n"
    assert faults_of(traffic_from_text, text, "t.toml", PLAIN) == (
        "t.toml: rho is not a key of traffic; it is written prefix_share",
        "t.toml: C is not a key of traffic; it is written concurrency",
        "t.toml: L is not a key of traffic; known here: concurrency, prefix_share, repetitiveness, prompt_tokens, "
        "output_tokens, context_tokens, autocorrelation, prefix_share_low, prefix_share_high, repetitiveness_low, "
        "repetitiveness_high, autocorrelation_low, autocorrelation_high, reading",
        "t.toml: prefix_share is 40; it lies in [0, 1]; a percentage is written as a fraction: 0.4",
    )


def test_lengths_in_thousands_are_warned_of():
    text = "prompt_tokens = 12\noutput_tokens = 1\ncontext_tokens = 16.4\n"
    with pytest.warns(InputWarning) as warned:
        traffic_from_text(text, "t.toml", PLAIN)
    assert str(warned[0].message) == ("t.toml: context_tokens is 16.4; tokens are counted one by one, not in thousands")


def test_a_memory_plan_and_its_place(tmp_path):
    plan = tmp_path / "p.toml"
    plan.write_text('format = "draft-oracle/pool"\nversion = 2\n[hardware]\nusable_gib = -1\n', "utf-8")
    said = refused("pool", plan, "-o", tmp_path)
    assert said.splitlines()[:4] == [
        "error: 4 faults",
        f"1. {tmp_path}: would replace the input {plan}; choose another place",
        f"2. {plan}: format and version are 'draft-oracle/pool', 2; a memory plan says format = \"draft-oracle/pool\", "
        "version = 1",
        f"3. {plan}: hardware.usable_gib is -1; it is a finite number above 0 and at most 1e+18",
    ]


def test_options_and_model_of_crossover():
    said = refused("crossover", "-m", "no.json", "--kv-bytes", "9")
    assert "--kv-bytes and --bandwidth-gb go together" in said
    assert "give --num-experts, or name traces" in said
    assert "no.json" in said


def test_options_and_files_of_recommend(tmp_path):
    (tmp_path / "s.csv").write_text("draft_length,step_ms\n1,-2\n", "utf-8")
    asked = ("--step-times", tmp_path / "s.csv", "--acceptance", "no.csv", "--tenant-weights", "a")
    said = refused("recommend", *asked)
    for part in ("s.csv", "no.csv", "--tenant-weights is 'a'"):
        assert part in said
    said = refused("recommend", "--model", PUBLISHED, "--method", "eagle3")
    for part in ("--method goes with --engine", "give --unique-experts by m", "give --context-len"):
        assert part in said
