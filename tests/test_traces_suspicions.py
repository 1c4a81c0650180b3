"""What looks wrong in trace files but can be meant, and files that are damaged."""

import random
import warnings

import numpy as np
from test_traces_reading import refusal, save, walk
from traces_factory import DENSE, fixed_bytes, routed, rows, trace_table

from oracle.errors import InputError, InputWarning
from oracle.traces import TraceFiles


def caught(files: TraceFiles) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        list(files)
    assert all(issubclass(w.category, InputWarning) for w in found)
    return [str(w.message) for w in found]


def test_survival_products_are_suspected_once_and_only_if_no_batch_rises(tmp_path):
    falling = np.tile(np.array([0.9, 0.5, 0.25, 0.125], np.float32), (8, 1))
    drop = ("match_prob", *DENSE)
    path = save(tmp_path / "t.parquet", trace_table((4, 4), drop=drop, match_probs=rows((4, 4), falling)))
    (message,) = caught(TraceFiles(path, batch_bytes=1))
    assert message.startswith(f"{path}: match_probs never rise along any chain, so they look like survival products")
    assert caught(TraceFiles(path, match_is="conditional")) == []
    assert caught(TraceFiles(path, match_is="survival")) == []
    (converted,) = TraceFiles(path, match_is="survival")
    assert np.allclose(converted.match_probs[0], [0.9, 0.5 / 0.9, 0.5, 0.5])
    falling[4, 1] = 0.95
    path = save(tmp_path / "t.parquet", trace_table((4, 4), drop=drop, match_probs=rows((4, 4), falling)))
    assert caught(TraceFiles(path, batch_bytes=1)) == []
    assert refusal(TraceFiles, path, match_is="product").startswith("match_is is 'product'")


def test_layers_that_name_one_id_in_all_slots_are_suspected_to_be_dense(tmp_path):
    ids = routed(12, 3, 2, 8)
    ids[:, 1] = 0
    drop = ("new_experts", "unique_experts")
    table = trace_table((4, 4, 4), layers=3, drop=drop, experts=fixed_bytes((4, 4, 4), ids))
    path = save(tmp_path / "t.parquet", table)
    assert caught(TraceFiles(path, batch_bytes=1)) == [
        f"{path}: experts name one id in all slots of layer 1; engines report dense layers so. Leave dense layers out "
        "of experts and of layers, or unique experts come out too low"
    ]
    ids[8, 1] = [3, 4]
    path = save(
        tmp_path / "t.parquet", trace_table((4, 4, 4), layers=3, drop=drop, experts=fixed_bytes((4, 4, 4), ids))
    )
    assert caught(TraceFiles(path)) == []


def test_a_target_without_routing_is_pointed_out(tmp_path):
    path = save(tmp_path / "t.parquet", trace_table(drop=("experts", "new_experts", "unique_experts")))
    assert caught(TraceFiles(path)) == [
        f"{path}: has layers, top_k and num_experts, but none of experts, new_experts and unique_experts; expert costs "
        "are left out, as for a dense target"
    ]
    assert caught(TraceFiles(save(tmp_path / "d.parquet", trace_table(drop=DENSE)))) == []


def test_damaged_files_are_refused_in_words(tmp_path):
    """Random damage: either the values still make sense, or the fault is told; never another exception."""
    data = save(tmp_path / "whole.parquet", trace_table((5, 0, 7))).read_bytes()
    rnd = random.Random(0)
    path = tmp_path / "t.parquet"
    told = 0
    for _ in range(150):
        damaged = bytearray(data)
        if rnd.random() < 0.3:
            del damaged[rnd.randrange(len(data)) :]
        else:
            for _ in range(rnd.randrange(1, 4)):
                damaged[rnd.randrange(len(data))] = rnd.randrange(256)
        path.write_bytes(damaged)
        said = None
        try:
            walk(path, batch_bytes=1000)  # also asks the footer for sizes
        except InputError as error:  # any other exception fails the test
            said = str(error)
        assert said is None or str(path) in said
        told += said is not None
    assert told > 50


def test_page_damage_is_told_while_walking(tmp_path):
    path = save(tmp_path / "t.parquet", trace_table((50, 50)), compression="zstd")
    data = bytearray(path.read_bytes())
    data[200:400] = b"\xff" * 200
    path.write_bytes(data)
    files = TraceFiles(path)  # the footer is whole
    assert refusal(lambda: list(files)).startswith(f"{path}: the Parquet file is damaged and cannot be read")
