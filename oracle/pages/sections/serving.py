"""At which batch sizes speculation pays, by the experts that batches of these traces touch."""

from functools import partial

from oracle.figures.crossover import acceptance_by_batch, speed_up_by_batch
from oracle.pages.material import Absent, Material
from oracle.pages.page import Figure, LeftOut, Section
from oracle.summaries.crossover import exits, headline, intervals_table, lengths_table, schedule_table, sizes_table

TITLE = "When speculation pays"


def serving(material: Material) -> Section | LeftOut:
    """Speed-up by batch size, the schedule that follows, and what both rest on."""
    found = material.serving
    if isinstance(found, Absent):
        return LeftOut(TITLE, found.why)
    answer = found.answer
    shown = [size for size in found.shown if size <= answer.most]
    said = [f"{_sentence(headline(answer))} {_sentence(exits(answer))}"]
    if answer.extrapolated.any():
        said.append(
            f"{int(answer.extrapolated.sum()):,} of these {answer.most:,} batch sizes rest on extrapolated prices: "
            "there computing a token, reading the context of further requests and drafting for them are taken to cost "
            "nothing, so this shows where to time rounds, not what would be measured; `draft-oracle crossover` takes "
            "other prices."
        )
    sizes, lengths = sizes_table(answer, shown), lengths_table(answer, shown)
    clusters = f"{len(answer.traffic.left_out_context):,} groups of clusters left out one at a time"
    figures = (
        Figure(
            "speed-up-by-batch",
            "Speed-up over K = 0 by batch size, expected and in-sample, and the schedule; dashed where prices are "
            f"extrapolated; {material.sample}; bands: 95 % intervals from {clusters}.",
            f"Speed-up against batch size from 1 to {answer.most}: {headline(answer)}.",
            partial(speed_up_by_batch, answer),
            lengths,
        ),
        Figure(
            "acceptance-by-batch",
            "Match probability, the same at all positions, from which on some K ≥ 1 pays; shaded where it pays on "
            f"these traces; {material.sample}; without intervals: those of the speed-ups say what is settled.",
            f"Match probability needed against batch size from 1 to {answer.most}; {exits(answer)}.",
            partial(acceptance_by_batch, answer),
            sizes,
        ),
    )
    tables = (intervals_table(answer, found.notes), schedule_table(answer))
    return Section(TITLE, "serving", tuple(said), figures, tables, folded=(sizes, lengths))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
