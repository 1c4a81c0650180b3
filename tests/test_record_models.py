"""Recording from tiny models of each architecture, against plain passes of the models themselves."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `record`")
hf = pytest.importorskip("transformers", reason="needs the extra `record`")

import record_models  # noqa: E402

from oracle.errors import InputError, InputWarning  # noqa: E402
from oracle.recorder import passes  # noqa: E402
from oracle.recorder import routing as routing_module  # noqa: E402
from oracle.recorder.loading import Models, load  # noqa: E402
from oracle.recorder.passes import Text, check_attention  # noqa: E402
from oracle.recorder.prompts import Prompt  # noqa: E402
from oracle.recorder.routing import Routing  # noqa: E402
from oracle.recorder.sequence import Generation, record  # noqa: E402
from oracle.recorder.settings import Settings  # noqa: E402

pytestmark = pytest.mark.record
MOE = [name for name in record_models.ARCHITECTURES if name not in ("dense", "alibi")]
K = 3
PROMPT = Prompt("p", "def f(x):\n    return x + 1\n")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Give the folder of a model, made when it is first asked for."""
    root = tmp_path_factory.mktemp("models")

    def of(architecture: str) -> str:
        path = root / architecture
        return str(path) if path.exists() else record_models.save(path, architecture, seed=len(architecture))

    return of


def settings_of(folder: Callable[[str], str], target: str, **options: Any) -> Settings:
    """A short recording in double precision, so that equal mathematics gives equal tokens."""
    draft = options.pop("draft", None) or folder("dense")
    usual: dict[str, Any] = {"dtype": "float64", "experts_kernel": "eager", "k_max": K, "max_new_tokens": 15}
    return Settings(folder(target), draft, **{**usual, **options})


def recorded(settings: Settings, prompt: Prompt = PROMPT) -> tuple[Models, Generation]:
    models = load(settings)
    return models, record(models, settings, prompt, 0)


def plain_ids(model: Any, tokens: list[int]) -> np.ndarray:
    """(rows, layers, top_k) expert ids of one plain pass, caught where the router gives them out."""
    caught: list[np.ndarray] = []

    def note(_module: Any, _inputs: Any, output: Any) -> None:
        caught.append(output[2].reshape(-1, output[2].shape[-1]).numpy())

    routers = [module for module in model.modules() if type(module).__name__.lower().endswith("topkrouter")]
    handles = [router.register_forward_hook(note) for router in routers]
    with torch.no_grad():
        model(torch.tensor([tokens]))
    for handle in handles:
        handle.remove()
    return np.stack(caught, axis=1)


def chosen_from_logits(architecture: str, router: Any, logits: np.ndarray) -> np.ndarray:
    """Sorted ids that the published routing rules take from router logits."""
    top_k = router.top_k
    if not architecture.startswith("deepseek"):
        return np.sort(np.argsort(-logits, axis=1)[:, :top_k], axis=1)
    if architecture == "deepseek_v3":
        scores = 1 / (1 + np.exp(-logits)) + router.e_score_correction_bias.numpy()
    else:
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    groups, taken = 4, 2
    by_group = scores.reshape(len(scores), groups, -1)
    best = np.sort(by_group, axis=2)[:, :, ::-1]
    worth = best[:, :, :2].sum(axis=2) if architecture == "deepseek_v3" else best[:, :, 0]
    rows = []
    for row, group_worth in zip(scores, worth, strict=True):
        groups_taken = set(np.argsort(-group_worth)[:taken].tolist())
        size = len(row) // groups
        allowed = [e for e in range(len(row)) if e // size in groups_taken]
        rows.append(sorted(sorted(allowed, key=lambda e: -row[e])[:top_k]))
    return np.array(rows)


@pytest.mark.parametrize("architecture", MOE)
def test_ids_are_those_recomputed_from_router_logits(folder: Callable[[str], str], architecture: str) -> None:
    models = load(settings_of(folder, architecture))
    caught: list[tuple[Any, np.ndarray]] = []
    routers = [m for m in models.target.modules() if type(m).__name__.lower().endswith("topkrouter")]
    handles = [r.register_forward_hook(lambda m, _i, out: caught.append((m, out[0].numpy()))) for r in routers]
    with models.routing:
        Text(models.target).extend(torch.arange(40))
        ids = models.routing.take()
    for handle in handles:
        handle.remove()
    layers = record_models.LAYERS.get(architecture, 3)
    assert ids.shape == (40, layers, models.routing.top_k)
    assert models.routing.layers == len(caught) == layers
    for layer, (router, logits) in enumerate(caught):
        wanted = chosen_from_logits(architecture, router, logits.reshape(40, -1))
        np.testing.assert_array_equal(np.sort(ids[:, layer], axis=1), wanted)
    assert len(np.unique(ids)) > models.routing.top_k  # routing varies


@pytest.mark.parametrize("architecture", [*MOE, "dense"])
def test_everything_recorded_equals_plain_passes(folder: Callable[[str], str], architecture: str) -> None:
    settings = settings_of(folder, architecture, match="overlap")
    models, made = recorded(settings)
    prompt = models.tokenizer(PROMPT.prompt)["input_ids"]
    text = models.target.generate(torch.tensor([prompt]), max_new_tokens=15, do_sample=False)[0].tolist()
    assert made.context.tolist() == text[: len(prompt) + 1]  # the token of the prefill is no decision
    assert made.emitted.tolist() == text[len(prompt) + 1 :]
    for t, chain in enumerate(made.proposed.chains):
        context = text[: len(prompt) + 1 + t]
        with torch.no_grad():
            p, q = (torch.softmax(m(torch.tensor([context])).logits[0, -1], -1) for m in (models.target, models.draft))
            own = models.draft.generate(torch.tensor([context]), max_new_tokens=K, do_sample=False)[0].tolist()
        assert chain.tolist() == own[len(context) :]
        assert made.proposed.match[t] == pytest.approx(float(torch.minimum(p, q).sum()), abs=1e-6)
        assert made.proposed.draft_prob is not None
        assert made.proposed.draft_prob[t] == pytest.approx(float(q.max()), abs=1e-6)
        if architecture == "dense":
            continue
        rows = plain_ids(models.target, own)[len(context) - 1 :]
        np.testing.assert_array_equal(np.sort(made.experts[t]), np.sort(rows[0]))
        assert made.unique is not None
        for k in range(K + 1):
            sets = [set(rows[: k + 1, layer].ravel().tolist()) for layer in range(rows.shape[1])]
            assert made.unique[t, k] == pytest.approx(np.mean([len(s) for s in sets]), rel=1e-6)
    assert (made.unique is None) == (architecture == "dense")


@pytest.mark.parametrize("kind", ["overlap", "reference", "greedy"])
def test_match_probabilities_by_their_definition(folder: Callable[[str], str], kind: str) -> None:
    settings = settings_of(folder, "qwen3_moe", decoding="sample", temperature=1.7, match=kind, max_new_tokens=30)
    models, made = recorded(settings)
    text = [*made.context.tolist(), *made.emitted.tolist()]
    with torch.no_grad():
        both = (m(torch.tensor([text])).logits[0] / 1.7 for m in (models.target, models.draft))
        p, q = (torch.softmax(logits, -1).numpy() for logits in both)
    for t, token in enumerate(made.emitted):
        row = len(made.context) + t - 1
        wanted = {
            "overlap": np.minimum(p[row], q[row]).sum(),
            "reference": q[row, token],
            "greedy": float(q[row].argmax() == token),
        }[kind]
        assert made.proposed.match[t] == pytest.approx(wanted, abs=1e-6)
        if kind == "greedy":
            assert made.proposed.chains[t][0] == q[row].argmax()


def test_expected_tails_start_at_the_anchor_and_weigh_by_the_mismatch(folder: Callable[[str], str]) -> None:
    settings = settings_of(folder, "olmoe", decoding="sample", match="greedy", max_new_tokens=20)
    models, made = recorded(settings)  # with `greedy` the wrong token is the draft's own, so tails are the chains
    assert settings.unique_experts == "expected"
    assert made.unique is not None
    text = [*made.context.tolist(), *made.emitted.tolist()]
    for t in range(len(made.emitted)):
        context = text[: len(made.context) + t]
        matched = int(np.cumprod(made.proposed.match[t : t + K]).sum())
        begin = context + made.emitted[t : t + matched].tolist()
        own = models.draft.generate(torch.tensor([begin]), max_new_tokens=K, do_sample=False)[0].tolist()
        rows = plain_ids(models.target, own)[len(context) - 1 :]
        for k in range(K + 1):
            sets = [set(rows[: k + 1, layer].ravel().tolist()) for layer in range(rows.shape[1])]
            assert made.unique[t, k] == pytest.approx(np.mean([len(s) for s in sets]), rel=1e-6)


def test_a_lookup_proposes_what_transformers_does(folder: Callable[[str], str]) -> None:
    from transformers.generation.candidate_generator import PromptLookupCandidateGenerator  # noqa: PLC0415

    settings = settings_of(folder, "qwen2_moe", draft="ngram:2", max_new_tokens=25, match="overlap")
    models, made = recorded(settings, Prompt("p", "one two one two one three one two"))
    text = [*made.context.tolist(), *made.emitted.tolist()]
    theirs = PromptLookupCandidateGenerator(num_output_tokens=K, max_matching_ngram_size=2, max_length=10_000)
    with torch.no_grad():
        p = torch.softmax(models.target(torch.tensor([text])).logits[0], -1).numpy()
    assert made.proposed.draft_prob is None
    found = 0
    for t, chain in enumerate(made.proposed.chains):
        context = text[: len(made.context) + t]
        wanted = theirs.get_candidates(torch.tensor([context]))[0][0, len(context) :].tolist()
        assert chain.tolist() == wanted
        found += bool(wanted)
        first = p[len(context) - 1, chain[0]] if len(chain) else 0.0
        assert made.proposed.match[t, 0] == pytest.approx(first, abs=1e-6)
    assert found > 0


def test_given_texts_take_the_place_of_generated_ones(folder: Callable[[str], str]) -> None:
    settings = settings_of(folder, "mixtral")
    models, made = recorded(settings, Prompt("p", (1, 2, 3), reference=(4, 5, 6, 7)))
    assert made.context.tolist() == [1, 2, 3, 4]
    assert made.emitted.tolist() == [5, 6, 7]
    _, by_text = recorded(settings, Prompt("p", "ab", reference="cdef"))
    assert [models.text_of(int(token)) for token in by_text.emitted] == ["d", "e", "f"]
    _, alone = recorded(settings, Prompt("p", (1, 2), reference=(4,)))
    assert len(alone.emitted) == 0  # all that was emitted came from the prefill
    assert alone.unique is not None
    assert alone.unique.shape == (0, K + 1)
    with pytest.raises(InputError, match=r"holds the token 900, but the models know 257"):
        recorded(settings, Prompt("p", (1, 900), reference=(4,)))
    chat = Prompt("p", ({"role": "user", "content": "hello"},), reference="x")
    with pytest.raises(InputError, match="has no chat template; give `prompt`"):
        record(models, settings, chat, 0)
    models.tokenizer.chat_template = "{% for m in messages %}<{{ m['content'] }}>{% endfor %}"
    assert models.tokenizer.decode(record(models, settings, chat, 0).context) == "<hello>x"


def test_what_cannot_be_right_is_said(folder: Callable[[str], str]) -> None:
    settings = settings_of(folder, "olmoe", draft="ngram")
    models = load(settings)
    long = Prompt("long", tuple(range(200)) * 3, reference=(1, 2))
    with pytest.warns(InputWarning, match="prompt 'long': text and draft reach 605 tokens, more than the 512 that"):
        record(models, settings, long, 0)
    torch.nn.init.constant_(models.target.lm_head.weight, float("nan"))
    with pytest.raises(InputError, match="gives logits that are not a number; load it with another --dtype"):
        record(models, settings, PROMPT, 0)


def test_refused_models(folder: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"--draft .*its attention takes no mask of our own \(too many values"):
        load(settings_of(folder, "olmoe", draft=folder("alibi")))
    with pytest.raises(InputError, match=r"the tokenizer of no-such-model cannot be loaded .*--hub"):
        load(settings_of(folder, "olmoe", draft="no-such-model"))
    other = tmp_path / "other"
    record_models.save(other, "dense", 1)
    record_models.save_tokenizer(other, last="<|other|>")
    with pytest.raises(InputError, match=r"another tokenizer .*id 256 is '<\|other\|>' there and '<\|end\|>' in the"):
        load(settings_of(folder, "olmoe", draft=str(other)))
    linear = SimpleNamespace(config=hf.Qwen3NextConfig())
    with pytest.raises(InputError, match="has layers of the kind linear_attention"):
        check_attention(linear, "--target x")
    monkeypatch.setattr(routing_module, "_IDS", ())
    with pytest.raises(InputError, match=r"--target .*mixture of experts \(olmoe\), but none of its modules takes"):
        load(settings_of(folder, "olmoe"))


def test_a_model_that_does_not_follow_the_mask_is_refused(
    folder: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "_additive", lambda seen, dtype: torch.zeros(seen.shape, dtype=dtype)[None, None])
    with pytest.raises(InputError, match=r"computes other logits when several continuations share a pass than for"):
        load(settings_of(folder, "olmoe"))


def test_layers_that_differ_are_refused(folder: Callable[[str], str]) -> None:
    model = hf.AutoModelForCausalLM.from_pretrained(folder("olmoe"))
    experts: Iterator[Any] = (m for m in model.modules() if type(m).__name__ == "OlmoeExperts")
    next(experts).num_experts = 9
    with pytest.raises(InputError, match=r"its layers differ in num_experts \(8, 9\)"):
        Routing(model, "--target x")
