"""What everything rests on, and what it cannot say."""

from oracle.pages.material import Material
from oracle.pages.page import Section
from oracle.summaries.study import study_tables
from oracle.tables import Row, Table, words

_LIMITS = (
    "Scores are expected ones on these traces unless they are said to be held out or realised.",
    "The oracle and the policies marked ! look ahead: bounds, nothing that an engine can run.",
    "The latency model holds for the model, draft, machine, backend and batch size it was measured on.",
    "Intervals resample clusters of the traces and take the coefficients as given, unless it is said otherwise.",
)


def limits(material: Material) -> Section:
    """Provenance, warnings and limits."""
    tables = study_tables(material.study)
    overview = next(table for table in tables if table.name == "overview")
    both = tuple(table for table in tables if table.name == "unique_experts")
    return Section(
        "What this rests on",
        "limits",
        (*_LIMITS, *(f"Warning: {warning}." for warning in material.warnings)),
        tables=(overview, *both, _origin(material)),
    )


def _origin(material: Material) -> Table:
    origin = material.provenance
    options = "; ".join(f"{key} {value}" for key, value in origin["options"].items())
    libraries = ", ".join(f"{name} {version}" for name, version in origin["libraries"].items())
    described = ({"fact": name, "value": text} for name, text in material.described.items())
    rows: list[Row] = [
        *described,
        {"fact": "made by", "value": f"{origin['program']}, {origin['command']}"},
        {"fact": "with", "value": libraries},
        {"fact": "options", "value": options or None},
        *(
            {"fact": "input", "value": f"{file['name']}, {file['bytes']:,} bytes, sha256 {file['sha256']}"}
            for file in origin["inputs"]
        ),
    ]
    return Table("provenance", "Provenance", (words("", "fact"), words("", "value", most=400)), rows)
