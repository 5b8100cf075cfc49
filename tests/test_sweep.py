"""The sweep: keyed cells, shared splits, and a result that depends on neither order nor batches."""

from __future__ import annotations

import copy
import hashlib
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_recipe import CONFIG, changed
from strategies import SEEDS, make_codebook, random_records

from ppdm_dask import InputError, NaiveBayes, Recipe, privacy
from ppdm_dask.engine.cells import Cell
from ppdm_dask.experiments.inputs import prepare_all
from ppdm_dask.experiments.results import digest
from ppdm_dask.experiments.samples import Sample
from ppdm_dask.experiments.sweep.plan import SweepPlan
from ppdm_dask.experiments.sweep.trials import DISGUISE
from ppdm_dask.randomness import SimulationStream


class Notes:
    """A ledger in memory: repeats of each cell, as many as it was told."""

    def __init__(self, plan, ranges):
        self.results = {}
        for cell in plan.cells:
            wanted = ranges(cell)
            parts = [plan.work.trials(cell, start, stop) for start, stop in wanted]
            order = np.concatenate([np.arange(a, b) for a, b in wanted] or [np.zeros(0, int)])
            joined = {
                name: np.concatenate([part[name] for part in parts])[np.argsort(order)]
                for name in (parts[0] if parts else {})
            }
            self.results[cell.id] = np.sort(order).astype(np.int64), joined

    def finished(self, cell):
        return self.results[cell.id][0]

    def collect(self, cell):
        return self.results[cell.id][1]


def make_plan(config=CONFIG):
    recipe = Recipe.from_config(copy.deepcopy(config))
    return SweepPlan(recipe, prepare_all(recipe))


def whole(cell):
    return [(0, cell.repeats)]


@pytest.fixture(scope="module")
def plan():
    return make_plan()


@pytest.fixture(scope="module")
def dataset(plan):
    return plan.collect(Notes(plan, whole))


# -- cells -----------------------------------------------------------------------------------------


def test_a_cells_key_is_the_hash_of_its_parameters():
    params = {"design": {"q": 0.5}, "data": "x"}
    text = '{"data":"x","design":{"q":0.5}}'
    first = hashlib.sha256(text.encode()).digest()[:8]
    assert Cell("any", params, 3).key == int.from_bytes(first, "little") | 1 << 63
    assert Cell("other", dict(reversed(params.items())), 9).key == Cell("any", params, 3).key
    assert Cell("any", {**params, "data": "y"}, 3).key != Cell("any", params, 3).key


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.floats(allow_nan=False)))
def test_keys_fill_two_words(params):
    key = Cell("any", params, 1).key
    assert 2**63 <= key < 2**64
    assert len(np.random.SeedSequence(0, spawn_key=(key,)).generate_state(1)) == 1


def test_cells_are_the_benchmarks_and_the_points_that_are_defined(plan):
    ids = [cell.id for cell in plan.cells]
    assert ids == [
        "cancer undisguised",
        "first-300 undisguised",
        "cancer q=0.5",
        "cancer q=1",
        "first-300 q=0.5",
        "first-300 q=1",
    ]
    assert len({cell.key for cell in plan.cells}) == 6
    # With a fixed split the undisguised experiment has nothing to repeat.
    assert [cell.repeats for cell in plan.cells] == [1, 1, 4, 4, 4, 4]
    redrawn = make_plan(changed("sweep.split", "redrawn"))
    assert [cell.repeats for cell in redrawn.cells] == [4] * 6


def test_what_a_cells_numbers_depend_on(plan):
    """The rest of the recipe moves no number: more points, other repeats, seeds, titles, names."""
    keys = {cell.id: cell.key for cell in plan.cells}
    for path, value in (
        ("sweep.grid.q", [0.05, 1.0, 0.5]),
        ("sweep.repeats", 9),
        ("sweep.seed", 8),
        ("about.title", "Another"),
        ("figure", ...),
    ):
        other = {cell.id: cell.key for cell in make_plan(changed(path, value)).cells}
        shared = {i: k for i, k in other.items() if i in keys}
        assert shared.items() <= keys.items()
        assert len(shared) >= 4
    config = changed("data[0].id", "renamed")
    config["figure"] = []
    assert make_plan(config).cells[2].key == keys["cancer q=0.5"]
    for path, value in (
        ("design.w_y", 0.4),
        ("mine.floor", 0.01),
        ("sweep.train", 0.7),
        ("sweep.split", "redrawn"),
        ("data[0].binarise", "median"),
        ("data[0].incomplete", "drop"),
        ("data[0].records", 600),
    ):
        assert make_plan(changed(path, value)).cells[2].key != keys["cancer q=0.5"], path


def test_a_new_grid_point_moves_no_other_number(plan, dataset):
    more = make_plan(changed("sweep.grid.q", [0.05, 0.5, 0.75, 1]))
    wider = more.collect(Notes(more, whole))
    for name in ("correct", "correct_disguised", "accuracy_disguised", "floored"):
        np.testing.assert_array_equal(
            wider[name].sel(q=[0.5, 1]).values, dataset[name].sel(q=[0.5, 1]).values
        )


# -- splits ----------------------------------------------------------------------------------------

BOOK = make_codebook(["a", "b"], [2, 3], target="a")


@settings(max_examples=50)
@given(st.integers(2, 200), st.floats(0.05, 0.95), SEEDS, st.integers(0, 50))
def test_parts_make_up_the_whole(n, share, seed, repeat):
    records = random_records(BOOK, n, seed)
    n_train = round(share * n)
    if not 0 < n_train < n:
        with pytest.raises(InputError, match=r"^train: a share of .* leaves a part empty"):
            Sample.draw(records, "a", share, 2**63, True, seed)
        return
    redrawn = Sample.draw(records, "a", share, 2**63, True, seed)
    train, test = redrawn.parts(seed, repeat)
    assert (len(train), len(test)) == (n_train, n - n_train) == (redrawn.n_train, redrawn.n_test)
    assert sorted([*train, *test]) == list(range(n))
    assert (np.diff(train) > 0).all()
    assert redrawn.records is records
    # A fixed split is the first of the redrawn ones, with the training records put first.
    fixed = Sample.draw(records, "a", share, 2**63, False, seed)
    train, test = redrawn.parts(seed, 0)
    np.testing.assert_array_equal(fixed.records.codes, records.codes[np.r_[train, test]])
    for k in (0, repeat):
        np.testing.assert_array_equal(fixed.parts(seed, k)[0], np.arange(n_train))
        np.testing.assert_array_equal(fixed.parts(seed, k)[1], np.arange(n_train, n))


def test_splits_differ_by_repeat_and_by_seed_and_key():
    records = random_records(BOOK, 100, seed=1)
    one = Sample.draw(records, "a", 0.8, 2**63, True, 1)
    other = Sample.draw(records, "a", 0.8, 2**63 + 1, True, 1)
    tests = [one.parts(1, 0)[1], one.parts(1, 1)[1], one.parts(2, 0)[1], other.parts(1, 0)[1]]
    assert len({tuple(t) for t in tests}) == 4


def test_every_record_is_tested_alike():
    """5,000 splits of 10 records: each is tested in a fifth of them, within 5 sigma."""
    sample = Sample.draw(random_records(BOOK, 10, seed=2), "a", 0.8, 2**63, True, 3)
    n = 5_000
    tested = np.zeros(10)
    for repeat in range(n):
        tested[sample.parts(3, repeat)[1]] += 1
    assert np.abs(tested - n / 5).max() < 5 * math.sqrt(n * 0.2 * 0.8)


def test_all_cells_of_a_data_entry_meet_the_same_splits():
    plan = make_plan(changed("sweep.split", "redrawn"))
    samples = [plan.work.setting(cell).sample for cell in plan.cells]
    assert len({id(sample) for sample in samples}) == 2  # one a data entry
    assert {sample.split_key for sample in samples} == set(plan.work.samples)


def test_majority_class_by_hand(plan):
    for cell in plan.benchmarks:
        sample = plan.work.setting(cell).sample
        classes = sample.records.column("class").tolist()
        train, test = classes[: sample.n_train], classes[sample.n_train :]
        majority = max((0, 1), key=train.count)
        assert sample.majority_correct(7, 0) == test.count(majority)


# -- trials ----------------------------------------------------------------------------------------


def test_work_goes_to_another_process_unchanged(plan):
    again = pickle.loads(pickle.dumps(plan.work))
    for cell in plan.cells:
        one, two = plan.work.trials(cell, 1, 4), again.trials(cell, 1, 4)
        assert set(one) == set(two)
        for name in one:
            np.testing.assert_array_equal(one[name], two[name])


def test_a_trial_by_hand(plan):
    """Disguise under the cell's key, fit the training reports, predict the true test records."""
    cell = next(cell for cell in plan.cells if cell.id == "cancer q=0.5")
    setting = plan.work.setting(cell)
    sample, design = setting.sample, setting.design
    results = plan.work.trials(cell, 0, 3)
    for repeat in range(3):
        stream = SimulationStream(7, (cell.key, repeat, DISGUISE))
        reports = design.disguise(sample.records, stream)
        model = NaiveBayes(design, "class").fit(reports.slice(0, sample.n_train))
        test = sample.records.slice(sample.n_train, len(sample.records))
        correct = (model.predict_codes(test) == test.column("class")).sum()
        assert results["correct"][repeat] == correct
        assert results["floored"][repeat] == model.floored_
        disguised = reports.slice(sample.n_train, len(sample.records))
        hits = (model.predict_codes(disguised) == disguised.column("class")).sum()
        assert results["correct_disguised"][repeat] == hits
        solved = (hits / sample.n_test - 0.5 * 0.5) / 0.5  # the personal class is a fair coin
        assert results["accuracy_disguised"][repeat] == pytest.approx(solved, abs=1e-12)


# -- the result ------------------------------------------------------------------------------------


def test_the_result_does_not_depend_on_batches_or_order(plan, dataset):
    apart = Notes(plan, lambda cell: [(i, i + 1) for i in reversed(range(cell.repeats))])
    again = plan.collect(apart)
    assert digest(again) == digest(dataset)
    fresh = make_plan()
    assert digest(fresh.collect(Notes(fresh, whole))) == digest(dataset)
    seeded = make_plan(changed("sweep.seed", 8))
    assert digest(seeded.collect(Notes(seeded, whole))) != digest(dataset)


def test_q_of_one_is_the_benchmark_and_q_of_zero_is_undefined(dataset):
    benchmark = dataset["benchmark_correct"].isel(split=0)
    assert (dataset["correct"].sel(q=1) == benchmark).all()
    assert (dataset["accuracy_variance"].sel(q=1) == 0).all()
    reason = "at q = 0 every report is the personal answer"
    assert dataset["undefined"].sel(q=0).values.tolist() == [reason] * 2
    assert dataset["undefined"].sel(q=[0.5, 1]).values.tolist() == [["", ""]] * 2
    assert np.isnan(dataset["accuracy_mean"].sel(q=0)).all()
    assert np.isnan(dataset["accuracy_variance"].sel(q=0)).all()
    assert (dataset["correct"].sel(q=0) == -1).all()


def test_dimensions_and_sizes(dataset):
    assert dataset["correct"].dims == ("data", "q", "repeat")
    assert dataset.sizes["repeat"] == 4
    assert dataset["data"].values.tolist() == ["cancer", "first-300"]
    assert dataset["n_train"].values.tolist() == [559, 240]
    assert dataset["n_test"].values.tolist() == [140, 60]
    means = dataset["correct"].sel(q=0.5) / dataset["n_test"]
    np.testing.assert_allclose(
        dataset["accuracy_mean"].sel(q=0.5), means.mean("repeat"), atol=1e-15
    )


def test_a_partial_run_says_what_is_missing(plan, dataset):
    """Repeats 1 and 3 of each cell; the others keep the mark for no number."""
    some = plan.collect(
        Notes(plan, lambda cell: [(1, 2), (3, 4)] if cell.repeats == 4 else [(0, 1)])
    )
    for name, none in (("correct", -1), ("accuracy_disguised", np.nan)):
        got, full = some[name].sel(q=0.5).values, dataset[name].sel(q=0.5).values
        np.testing.assert_array_equal(got[:, [1, 3]], full[:, [1, 3]])
        np.testing.assert_array_equal(got[:, [0, 2]], np.full((2, 2), none))
    expected = dataset["correct"].sel(q=0.5)[:, [1, 3]].mean("repeat") / dataset["n_test"]
    np.testing.assert_allclose(some["accuracy_mean"].sel(q=0.5), expected)
    nothing = plan.collect(Notes(plan, lambda cell: []))
    assert (nothing["benchmark_correct"] == -1).all()
    assert np.isnan(nothing["accuracy_mean"]).all()


def test_redrawn_splits_give_a_benchmark_a_repeat():
    plan = make_plan(changed("sweep.split", "redrawn"))
    result = plan.collect(Notes(plan, whole))
    assert result["benchmark_correct"].shape == (2, 4)
    benchmark = result["benchmark_correct"].values
    np.testing.assert_array_equal(result["correct"].sel(q=1).values, benchmark)
    assert len(set(benchmark[0].tolist())) > 1
    sample = plan.work.setting(plan.cells[0]).sample
    expected = [sample.majority_correct(7, split) for split in range(4)]
    assert result["majority_correct"].sel(data="cancer").values.tolist() == expected


def test_pse_of_the_attributes_and_of_the_curves(plan, dataset):
    curve = dataset["pse_curve"]
    for w_a in (0.3, 0.5):
        for q in (0, 0.5, 1):
            expected = privacy.pse_unrelated(w_a, 0.5, q)
            assert float(curve.sel(w_a=w_a, q=q)) == pytest.approx(float(expected), abs=1e-12)
    for prepared in plan.prepared:
        for name in prepared.codebook.names:
            share = float(prepared.records.column(name).mean())
            got = dataset["pse_attribute"].sel(column=f"{prepared.entry.id}/{name}").values
            expected = privacy.pse_unrelated(share, 0.5, [0, 0.5, 1])
            np.testing.assert_allclose(got, expected, atol=1e-12)


def test_two_grid_axes():
    config = changed("sweep.grid", {"q": [0.5, 1], "w_y": [0.5, 0.2]})
    del config["design"]["w_y"]
    config["data"] = config["data"][:1]
    config["figure"] = []
    plan = make_plan(config)
    result = plan.collect(Notes(plan, whole))
    assert result["correct"].dims == ("data", "q", "w_y", "repeat")
    single = make_plan(changed("sweep.grid.q", [0.5]))
    fair = single.collect(Notes(single, whole))
    np.testing.assert_array_equal(
        result["correct"].sel(data="cancer", q=0.5, w_y=0.5),
        fair["correct"].sel(data="cancer", q=0.5),
    )
    same = (result["correct"].sel(q=1, w_y=0.5) == result["correct"].sel(q=1, w_y=0.2)).all()
    assert same


def test_attributes_of_many_categories_are_swept_too():
    config = changed("sweep.grid.q", [0.9])
    config["data"] = config["data"][:1]
    config["data"][0].pop("binarise")  # ten grades, eleven where they can be missing
    config["figure"] = []
    shape = make_plan(config).prepared[0].codebook.shape
    assert {10, 11} < set(shape)
    config["design"]["w_y"] = [0.5 if k == 2 else [0.1] * 10 + [0] * (k - 10) for k in shape]
    plan = make_plan(config)
    undisguised, disguised = (plan.work.trials(cell, 0, 1) for cell in plan.cells)
    n_test = plan.work.setting(plan.benchmarks[0]).sample.n_test
    assert undisguised["correct"][0] / n_test > 0.9
    assert disguised["correct"][0] / n_test > 0.8
    assert disguised["floored"][0] > undisguised["floored"][0]
