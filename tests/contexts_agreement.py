"""How far the labels of language contexts agree with those given by reading: ``python tests/contexts_agreement.py``.

The sample falls into two halves by a digest of the prompt or snippet. Rules were written looking at the errors of the
development half alone; the other half was measured once before its errors were looked at (see `FIRST_HELD_OUT`).
"""

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
from labelled_tokens.draw import HERE, TRACES, read_snippets

from oracle.contexts import FLAGS, SCRIPTS, Label, Mode, labels_of, name_of

FIRST_HELD_OUT = (431, 446)  # rows that agreed when the held-out half was first measured, and all its rows


def sample():
    """Rows as read, each with its half and what the labeller says (`found`)."""
    table = pq.read_table(TRACES, columns=["generation", "cluster", "token_text"]).to_pylist()
    clusters = {row["generation"]: row["cluster"] for row in table}
    texts = {row["generation"]: row["token_text"] for row in table}
    texts |= {name: pieces for name, (pieces, _) in read_snippets().items()}
    labelled = {name: labels_of(pieces) for name, pieces in texts.items()}
    lines = Path(HERE / "sample.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        row["half"] = half(clusters.get(row["name"], row["name"]))
        row["found"] = found(labelled[row["name"]], row["position"])
    return rows


def half(name):
    """The half of the sample that a prompt or snippet is in."""
    return "development" if hashlib.sha256(name.encode()).digest()[0] % 2 == 0 else "held out"


def found(labels, t):
    """What the labeller says of a token, in the words of the sample."""
    before = labels.script_before[t]
    mode_before = labels.from_mode[t]
    return {
        "label": name_of(Label(labels.label[t])),
        "mode": name_of(Mode(labels.mode[t])),
        "from_mode": None if mode_before < 0 else name_of(Mode(mode_before)),
        "script": SCRIPTS[labels.script[t]],
        "script_before": None if before < 0 else SCRIPTS[before],
        "flags": [flag for flag in FLAGS if getattr(labels, flag)[t]],
    }


def agreeing(rows, key="label"):
    """Number of rows whose label, or other column, is as read."""
    return sum(row["found"][key] == row[key] for row in rows)


def kappa(rows):
    """Cohen's kappa of the labels: agreement beyond that of two readers who guess by their own frequencies."""
    read, said = Counter(row["label"] for row in rows), Counter(row["found"]["label"] for row in rows)
    chance = sum(read[label] * said[label] for label in read) / len(rows) ** 2
    return (agreeing(rows) / len(rows) - chance) / (1 - chance)


def parts(rows):
    """The parts of the sample that are reported, by name."""
    yield "all", rows
    yield "without unsure", [row for row in rows if "unsure" not in row["flags"]]
    for key in ("source", "half"):
        for value in sorted({row[key] for row in rows}):
            yield f"{key} {value}", [row for row in rows if row[key] == value]


def report(rows):
    """The tables as text."""
    lines = [f"{'part':<20} {'agree':>5} {'rows':>5} {'share':>6} {'kappa':>6}"]
    for name, part in parts(rows):
        share = agreeing(part) / len(part)
        lines.append(f"{name:<20} {agreeing(part):>5} {len(part):>5} {share:>6.3f} {kappa(part):>6.3f}")
    first, of = FIRST_HELD_OUT
    lines += [f"{'held out, at first':<20} {first:>5} {of:>5} {first / of:>6.3f}", ""]
    lines.append(f"{'label':<20} {'read':>5} {'found':>5} {'precision':>9} {'recall':>6}")
    for label in map(name_of, Label):
        read = [row for row in rows if row["label"] == label]
        said = [row for row in rows if row["found"]["label"] == label]
        both = sum(row["label"] == label for row in said)
        lines.append(f"{label:<20} {len(read):>5} {len(said):>5} {both / len(said):>9.3f} {both / len(read):>6.3f}")
    lines.append("")
    for row in rows:
        if row["found"]["label"] != row["label"]:
            place = f"{row['name']} {row['position']}{' unsure' if 'unsure' in row['flags'] else ''}"
            where = f"{row['before'][-20:]!r} {row['token']!r} {row['after'][:10]!r}"
            lines.append(f"{place}: {where}: read {row['label']}, found {row['found']['label']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(report(sample()) + "\n")
