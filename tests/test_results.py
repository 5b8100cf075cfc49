"""Statistics, digest, file and findings of a result, against what is known or computed apart."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.grid import ERRORS, FEWEST, grid_axes, lines_of, moments
from ppdm_dask.experiments.results import digest, read_netcdf, write_netcdf
from ppdm_dask.experiments.sweep.results import (
    ADVERSARIES,
    DISCLOSURES,
    REGISTRY,
    build_dataset,
    empty_arrays,
    variable,
)
from ppdm_dask.experiments.sweep.tables import findings
from ppdm_dask.files.writing import replacing, write_text

COORDINATES: dict[str, Any] = {"data": ["a", "b"], "q": [0, 0.5, 1]}


def small(repeats: int = 3) -> dict[str, Any]:
    """Arrays of two data entries at three q, with easy numbers; q = 0 is undefined."""
    arrays = empty_arrays(COORDINATES, repeats)
    arrays["n_train"][:] = 40, 80
    arrays["n_test"][:] = 10, 20
    arrays["benchmark_correct"][:] = [[9], [15]]
    arrays["majority_correct"][:] = [[6], [10]]
    arrays["undefined"][:, 0] = "no inverse"
    for i, n in enumerate((10, 20)):
        arrays["correct"][i, 1] = [n - 4, n - 2, n - 3][:repeats]
        arrays["correct"][i, 2] = arrays["benchmark_correct"][i]
        arrays["correct_disguised"][i, 1:] = arrays["correct"][i, 1:]
        arrays["accuracy_disguised"][i, 1:] = arrays["correct"][i, 1:] / n
        arrays["floored"][i, 1:] = [[0, 1, 5][:repeats], [0] * repeats]
    return arrays


# -- moments -----------------------------------------------------------------------------------


def test_moments_agree_with_numpy() -> None:
    x = np.array([0.3, 0.1, 0.4, 0.1, 0.5, 0.9, 0.2, 0.6])
    n, found = len(x), moments(x)
    m4, s2 = np.mean((x - x.mean()) ** 4), x.var(ddof=1)
    expected = [
        x.mean(),
        math.sqrt(s2 / n),
        s2,
        math.sqrt((m4 - (n - 3) / (n - 1) * s2**2) / n),
    ]
    assert list(found) == pytest.approx(expected, rel=1e-13)


def test_the_formula_of_the_variances_error_holds_by_enumeration() -> None:
    # All 3^4 samples of four draws from three equally likely values.
    values, n = np.array([0.0, 1.0, 4.0]), 4
    variances = [np.var(sample, ddof=1) for sample in itertools.product(values, repeat=n)]
    m4, sigma2 = np.mean((values - values.mean()) ** 4), values.var()
    assert np.var(variances) == pytest.approx((m4 - (n - 3) / (n - 1) * sigma2**2) / n, rel=1e-12)


def test_the_variances_error_of_normal_values() -> None:
    # Var(s^2) = 2 sigma^4 / (n - 1) for normal values; the estimate's own error is about 2 %.
    x = np.random.default_rng(11).normal(size=20_000)
    assert moments(x).variance_se == pytest.approx(math.sqrt(2 / 19_999), rel=0.08)


def test_the_order_of_repeats_is_void() -> None:
    x = np.random.default_rng(3).normal(0.8, 0.1, 501)
    assert moments(x) == moments(x[::-1]) == moments(np.sort(x))


def test_counts_are_summed_as_integers() -> None:
    counts = np.array([9768, 9767, 9768, 9700], dtype=np.int32)
    found = moments(counts, 9768)
    assert found.mean == sum([9768, 9767, 9768, 9700]) / (4 * 9768)
    assert found.variance == pytest.approx(np.var(counts / 9768, ddof=1), rel=1e-12)
    many = np.full(100_000, 2_000_000_000, dtype=np.int32)
    assert moments(many).mean == 2_000_000_000


@pytest.mark.parametrize("value", [0.1, 0.9571428571428572, 1 / 3])
def test_equal_values_have_no_variance(value: float) -> None:
    for n in (2, 3, 7, 1000):
        found = moments(np.full(n, value))
        assert found.variance == found.mean_se == found.variance_se == 0


def test_too_few_values_have_no_error() -> None:
    assert np.isnan(list(moments(np.array([])))).all()
    assert moments(np.array([0.5])).mean == 0.5
    assert np.isnan(list(moments(np.array([0.5]))[1:])).all()


# -- assembling --------------------------------------------------------------------------------


def test_statistics_of_a_result() -> None:
    ds = build_dataset(small(), COORDINATES)
    assert grid_axes(ds) == ("q",)
    assert ds["accuracy_mean"].sel(data="a", q=0.5).item() == pytest.approx(0.7)
    assert ds["accuracy_variance"].sel(data="a", q=0.5).item() == pytest.approx(0.01)
    assert ds["accuracy_mean_se"].sel(data="a", q=0.5).item() == pytest.approx(0.1 / math.sqrt(3))
    assert ds["disguised_mean"].sel(data="b", q=0.5).item() == pytest.approx(0.85)
    assert ds["floored_mean"].sel(data="a", q=0.5).item() == 2
    assert ds["benchmark"].to_numpy().tolist() == [0.9, 0.75]
    assert ds["majority"].to_numpy().tolist() == [0.6, 0.5]
    # q = 1 is the benchmark, repeat by repeat and to the last bit.
    assert (ds["accuracy_mean"].sel(q=1) == ds["benchmark"]).all()
    assert (ds["accuracy_variance"].sel(q=1) == 0).all()


def test_an_undefined_cell_has_no_numbers() -> None:
    cell = build_dataset(small(), COORDINATES).sel(q=0)
    assert (cell["undefined"] == "no inverse").all()
    assert (cell["correct"] == -1).all()
    assert cell["accuracy_mean"].isnull().all()
    assert (cell["completed"] == 0).all()


def test_a_partial_result_counts_what_is_there() -> None:
    arrays = small()
    for name in ("correct", "correct_disguised", "floored"):
        arrays[name][0, 1, 1] = -1
    arrays["accuracy_disguised"][0, 1, 1] = np.nan
    ds = build_dataset(arrays, COORDINATES).sel(data="a", q=0.5)
    assert ds["completed"].item() == 2
    assert ds["accuracy_mean"].item() == pytest.approx(0.65)
    assert ds["disguised_mean"].item() == pytest.approx(0.65)
    assert ds["floored_mean"].item() == 2.5


def test_a_split_drawn_anew_has_a_benchmark_a_repeat() -> None:
    coordinates = {"data": ["a"], "q": [1]}
    arrays = empty_arrays(coordinates, 2, splits=2)
    arrays["n_test"][:] = 10
    arrays["n_train"][:] = 40
    arrays["benchmark_correct"][0] = arrays["correct"][0, 0] = [7, 8]
    arrays["majority_correct"][0] = [6, 5]
    ds = build_dataset(arrays, coordinates)
    assert ds["benchmark"].item() == ds["accuracy_mean"].item() == 0.75
    assert ds["majority"].item() == 0.55


def test_the_pse_of_a_record_is_its_least() -> None:
    coordinates = COORDINATES | {"column": ["a/x", "a/y", "b/x"], "w_a": [0.3]}
    arrays = small() | {
        "pse_attribute": [[0.5, 0.4, 0], [0.3, 0.41, 0], [0.2, 0.1, 0]],
        "pse_curve": [[0.42, 0.3, 0]],
    }
    ds = build_dataset(arrays, coordinates)
    assert ds["pse"].to_numpy().tolist() == [[0.3, 0.4, 0], [0.2, 0.1, 0]]


def test_further_axes_need_nothing_new() -> None:
    coordinates = {"data": ["a"], "theta": [0.6, 0.9], "groups": [1, 2, 3]}
    arrays = empty_arrays(coordinates, 5)
    arrays["n_test"][:] = 4
    arrays["correct"][0, 1, 2] = [1, 2, 3, 4, 2]
    ds = build_dataset(arrays, coordinates)
    assert ds["correct"].dims == ("data", "theta", "groups", "repeat")
    assert ds["accuracy_mean"].sel(theta=0.9, groups=3).item() == pytest.approx(0.6)


def test_every_variable_is_declared_once_and_says_what_it_is() -> None:
    names = [declared.name for declared in REGISTRY]
    assert len(set(names)) == len(names)
    ds = build_dataset(small(), COORDINATES)
    assert list(ds.data_vars) == [name for name in names if name in ds]
    for name, array in ds.data_vars.items():
        declared = variable(str(name))
        assert array.attrs["long_name"] == declared.doc
        assert array.attrs["units"] == declared.units
        assert array.dims == declared.dimensions(["q"])
        assert array.dtype == (object if declared.dtype == "str" else declared.dtype)
    optional = {"pse", "pse_attribute", "pse_curve", "nodes", "negative_share", *DISCLOSURES}
    assert set(names) - set(map(str, ds.data_vars)) == optional
    assert len(DISCLOSURES) == 9
    for name in DISCLOSURES:
        assert "first 20 repeats" in variable(name).doc
        assert f"of an adversary who {ADVERSARIES[name.partition('_')[2]]}" in variable(name).doc


def test_trees_have_nodes_and_a_share_of_negative_ones() -> None:
    arrays = empty_arrays(COORDINATES, 3, 1, ["nodes", "guess_own"])
    assert (arrays["nodes"] == -1).all()
    assert arrays["nodes"].shape == (2, 3, 3)
    arrays |= small()
    arrays["floored"][0, 1] = [0, 1, 5]
    arrays["nodes"][0, 1] = [3, 4, 10]
    arrays["nodes"][:, 2] = 7
    arrays["guess_own"][:, 0] = 0.9
    ds = build_dataset(arrays, COORDINATES)
    assert ds["nodes"].dims == ("data", "q", "repeat")
    assert ds["negative_share"].sel(data="a", q=0.5).item() == pytest.approx(0.25)
    assert (ds["negative_share"].sel(q=1) == 0).all()
    assert ds["negative_share"].sel(q=0).isnull().all()
    assert (ds["nodes"].sel(q=0) == -1).all()
    assert ds["guess_own"].sel(data="b").to_numpy() == pytest.approx(
        [0.9, math.nan, math.nan], nan_ok=True
    )
    names = [declared.name for declared in REGISTRY if declared.name in ds]
    assert list(ds.data_vars) == names
    arrays["nodes"][0, 1, 0] = 4
    assert digest(build_dataset(arrays, COORDINATES)) != digest(ds)


def test_a_partial_result_of_trees() -> None:
    arrays = {**empty_arrays(COORDINATES, 3, 1, ["nodes"]), **small()}
    arrays["nodes"][:, 1:, :2] = 4
    for name in ("correct", "correct_disguised", "floored"):
        arrays[name][:, :, 2] = -1
    arrays["accuracy_disguised"][:, :, 2] = np.nan
    ds = build_dataset(arrays, COORDINATES)
    assert ds["negative_share"].sel(data="a", q=0.5).item() == pytest.approx(0.125)


def test_what_does_not_fit_is_refused() -> None:
    arrays = small()
    with pytest.raises(ValueError, match="'corect'"):
        build_dataset(arrays | {"corect": 1}, COORDINATES)
    with pytest.raises(ValueError, match="'floored' is missing"):
        build_dataset({k: v for k, v in arrays.items() if k != "floored"}, COORDINATES)
    with pytest.raises(ValueError, match="n_test does not fit into int32"):
        build_dataset(arrays | {"n_test": [2**40, 1]}, COORDINATES)
    with pytest.raises(ValueError, match="n_test does not fit into int32"):
        build_dataset(arrays | {"n_test": [1.5, 1]}, COORDINATES)


# -- digest and file ---------------------------------------------------------------------------


def test_the_digest_is_what_its_description_says() -> None:
    coordinates = {"data": ["ä"], "q": [0, 1]}
    arrays = empty_arrays(coordinates, 1)
    arrays["n_train"][:], arrays["n_test"][:] = 8, 4
    arrays["benchmark_correct"][:], arrays["majority_correct"][:] = 3, 2
    arrays["undefined"][0] = ["why", ""]
    arrays["correct"][0, 1] = arrays["correct_disguised"][0, 1] = 3
    arrays["accuracy_disguised"][0, 1], arrays["floored"][0, 1] = 0.75, 0
    nan = struct.pack("<Q", 0x7FF8000000000000)

    def f8(*values: float) -> bytes:
        return b"".join(nan if math.isnan(v) else struct.pack("<d", v) for v in values)

    def i4(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}i", *values)

    def texts(*values: str) -> bytes:
        coded = [value.encode() for value in values]
        return b"".join(struct.pack("<Q", len(text)) + text for text in coded)

    cell, trial = ["data", "q"], ["data", "q", "repeat"]
    none = math.nan
    expected: list[tuple[str, list[str], list[int], str, bytes]] = [
        ("data", ["data"], [1], "str", texts("ä")),
        ("q", ["q"], [2], "<i8", struct.pack("<2q", 0, 1)),
        ("n_train", ["data"], [1], "<i4", i4(8)),
        ("n_test", ["data"], [1], "<i4", i4(4)),
        ("benchmark_correct", ["data", "split"], [1, 1], "<i4", i4(3)),
        ("majority_correct", ["data", "split"], [1, 1], "<i4", i4(2)),
        ("undefined", cell, [1, 2], "str", texts("why", "")),
        ("correct", trial, [1, 2, 1], "<i4", i4(-1, 3)),
        ("correct_disguised", trial, [1, 2, 1], "<i4", i4(-1, 3)),
        ("accuracy_disguised", trial, [1, 2, 1], "<f8", f8(none, 0.75)),
        ("floored", trial, [1, 2, 1], "<i4", i4(-1, 0)),
        ("completed", cell, [1, 2], "<i4", i4(0, 1)),
        ("benchmark", ["data"], [1], "<f8", f8(0.75)),
        ("majority", ["data"], [1], "<f8", f8(0.5)),
    ]
    for prefix in ("accuracy", "disguised"):
        expected.append((f"{prefix}_mean", cell, [1, 2], "<f8", f8(none, 0.75)))
        for name in ("mean_se", "variance", "variance_se"):
            expected.append((f"{prefix}_{name}", cell, [1, 2], "<f8", f8(none, none)))
    expected.append(("floored_mean", cell, [1, 2], "<f8", f8(none, 0.0)))
    sha = hashlib.sha256()
    for *head, payload in expected:
        sha.update(json.dumps(head, separators=(",", ":")).encode() + b"\n" + payload)
    assert digest(build_dataset(arrays, coordinates)) == sha.hexdigest()


def test_the_digest_sees_one_number_and_one_coordinate() -> None:
    ds = build_dataset(small(), COORDINATES)
    arrays = small()
    arrays["floored"][1, 2, 0] += 1
    assert digest(build_dataset(arrays, COORDINATES)) != digest(ds)
    assert digest(ds.assign_coords(q=[0, 0.5, 0.9])) != digest(ds)
    assert digest(ds.drop_vars("floored")) != digest(ds)


def test_the_digest_does_not_see_attributes_byte_order_or_kinds_of_nan() -> None:
    ds = build_dataset(small(), COORDINATES)
    titled = build_dataset(small(), COORDINATES, {"title": "a title"})
    assert digest(titled) == digest(ds)
    big = ds.copy()
    big["correct"] = ds["correct"].astype(">i4")
    assert digest(big) == digest(ds)
    odd = small()
    payload = np.array([0xFFF8000000000123], dtype=np.uint64).view(np.float64)
    odd["accuracy_disguised"][:, 0] = payload
    assert digest(build_dataset(odd, COORDINATES)) == digest(ds)


def test_a_file_holds_the_result(tmp_path: Path) -> None:
    coordinates = COORDINATES | {"column": ["a/x", "b/x"], "w_a": [0.3]}
    arrays = small() | {"pse_attribute": np.ones((2, 3)), "pse_curve": np.ones((1, 3))}
    ds = build_dataset(arrays, coordinates, {"title": "ä"})
    write_netcdf(ds, tmp_path / "result.nc")
    found = read_netcdf(tmp_path / "result.nc")
    assert digest(found) == digest(ds)
    assert found["correct"].attrs["units"] == "records"
    assert found.attrs["title"] == "ä"
    assert [path.name for path in tmp_path.iterdir()] == ["result.nc"]


def test_a_file_that_is_no_result(tmp_path: Path) -> None:
    path = tmp_path / "result.nc"
    with pytest.raises(RunFolderError, match=r"result\.nc: there is no such file$"):
        read_netcdf(path)
    path.write_bytes(b"no netCDF at all")
    with pytest.raises(RunFolderError, match=r"result\.nc: cannot be read as netCDF-4: ") as error:
        read_netcdf(path)
    assert "\n" not in str(error.value)


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half of the n")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(RunFolderError, match=r"b\.txt: cannot be written: Not a directory"):
        write_text(path / "b.txt", "new")


# -- findings ----------------------------------------------------------------------------------


def made(
    means: list[float], spreads: list[float], repeats: int = 100, disguised: float = 0.0
) -> list[str]:
    """Findings of one data entry whose accuracies have the given means and half-ranges."""
    qs = [round((i + 1) / len(means), 3) for i in range(len(means))]
    coordinates = {"data": ["a"], "q": qs}
    arrays = empty_arrays(coordinates, repeats)
    arrays["n_train"][:] = arrays["n_test"][:] = 1000
    arrays["benchmark_correct"][:], arrays["majority_correct"][:] = 900, 600
    sign = np.where(np.arange(repeats) % 2, 1, -1)
    # Half of the repeats lie further out, so that the fourth moment is not degenerate.
    far = np.where(np.arange(repeats) % 4 < 2, 1.0, 0.5)
    for i, (mean, spread) in enumerate(zip(means, spreads, strict=True)):
        arrays["correct"][0, i] = np.round(1000 * (mean + spread * sign * far))
        arrays["accuracy_disguised"][0, i] = arrays["correct"][0, i] / 1000 + disguised
    return findings(build_dataset(arrays, coordinates))


def test_what_is_as_expected_is_no_finding() -> None:
    assert made([0.7, 0.8, 0.85, 0.9], [0.04, 0.03, 0.02, 0.0]) == []


def test_a_mean_above_the_undisguised_end_is_a_finding() -> None:
    found = made([0.7, 0.92, 0.95, 0.9], [0.04, 0.03, 0.02, 0.0])
    assert found == [
        "a: mean accuracy at q = 0.5 ... 0.75 lies above that at q = 1 (0.9000), "
        "most at q = 0.75 (0.9500)."
    ]


def test_a_dip_on_the_way_is_a_finding() -> None:
    found = made([0.8, 0.75, 0.7, 0.9], [0.04, 0.03, 0.02, 0.0])
    assert found == [
        "a: mean accuracy falls from 0.8000 at q = 0.25 to 0.7000 at q = 0.75, "
        "where it is expected to rise."
    ]


def test_a_rising_variance_is_a_finding() -> None:
    (found,) = made([0.7, 0.8, 0.85, 0.9], [0.01, 0.02, 0.04, 0.0])
    assert found.startswith("a: variance of accuracy rises from 6.31e-05 at q = 0.25 to 1.01e-03 ")


def test_four_standard_errors_decide() -> None:
    # A fall of the mean by 3.5 and by 4.5 standard errors of the difference.
    se = math.hypot(0.04, 0.03) * math.sqrt(0.625 / 99)
    for times, expected in ((3.5, 0), (4.5, 1)):
        fall = round(times * se, 3)
        assert len(made([0.8, 0.8 - fall, 0.9], [0.04, 0.03, 0.0])) == expected
    assert ERRORS == 4


def test_few_repeats_found_nothing() -> None:
    assert made([0.95, 0.9], [0.01, 0.0], repeats=FEWEST)
    assert made([0.95, 0.9], [0.01, 0.0], repeats=FEWEST - 1) == []


def test_test_parts_that_disagree_are_a_finding() -> None:
    found = made([0.8, 0.9], [0.02, 0.0], disguised=0.01)
    assert found[0] == (
        "a: at q = 0.5 the disguised test part (0.8100) and the clean one (0.8000) disagree by "
        "more than 4 standard errors."
    )
    assert len(found) == 2


def test_a_learner_below_the_majority_and_a_constant_attribute_are_findings() -> None:
    coordinates = COORDINATES | {"column": ["a/x", "a/y", "b/x"]}
    arrays = small() | {"pse_attribute": [[0.5, 0.4, 0], [0, 0, 0], [0.2, 0.1, 0]]}
    arrays["majority_correct"][1] = 16
    assert findings(build_dataset(arrays, coordinates)) == [
        "a: only one category occurs of y, so the least PSE of a reader of one answer is 0.",
        "b: on the test part the undisguised learner (0.7500) scores below the majority class "
        "(0.8000).",
    ]


def test_an_adversary_whom_no_cell_stops_is_a_finding() -> None:
    arrays = {**empty_arrays(COORDINATES, 3, 1, DISCLOSURES), **small()}
    arrays["advantage_own"][:] = [0, 0.1, 0.4]
    arrays["advantage_product"][:] = [[0.2, 0.3, 0.4], [0.25, 0.3, 0.4]]
    arrays["advantage_joint"][1] = [0.5, math.nan, 0.5]
    assert findings(build_dataset(arrays, COORDINATES)) == [
        "b: an adversary who sees the whole report and knows each attribute's distribution, but "
        "not how they go together guesses some attribute right at least 0.250 more often than "
        "without a report, whatever the cell, and at most 0.400."
    ]


def gridded(levels: dict[str, dict[tuple[int, float], tuple[float, float]]]) -> Any:
    """A result over groups and theta: mean and half-range of the accuracy of 100 repeats."""
    groups = sorted({g for cells in levels.values() for g, _ in cells})
    thetas = sorted({theta for cells in levels.values() for _, theta in cells})
    coordinates = {"data": list(levels), "groups": groups, "theta": thetas}
    arrays = empty_arrays(coordinates, 100)
    arrays["n_train"][:] = arrays["n_test"][:] = 1000
    arrays["benchmark_correct"][:], arrays["majority_correct"][:] = 900, 600
    signs = np.where(np.arange(100) % 2, 1, -1) * np.where(np.arange(100) % 4 < 2, 1.0, 0.5)
    for i, cells in enumerate(levels.values()):
        for (g, theta), (mean, spread) in cells.items():
            at = i, groups.index(g), thetas.index(theta)
            arrays["correct"][at] = np.round(1000 * (mean + spread * signs))
            arrays["accuracy_disguised"][at] = arrays["correct"][at] / 1000
    return build_dataset(arrays, coordinates)


AS_EXPECTED = {
    (1, 0.0): (0.9, 0.0),
    (1, 0.2): (0.85, 0.02),
    (1, 0.4): (0.8, 0.03),
    (1, 0.6): (0.8, 0.03),
    (1, 0.9): (0.88, 0.01),
    (2, 0.0): (0.9, 0.0),
    (2, 0.2): (0.82, 0.03),
    (2, 0.4): (0.7, 0.05),
    (2, 0.6): (0.7, 0.05),
    (2, 0.9): (0.87, 0.02),
}


def test_lines_run_towards_the_truth() -> None:
    ds = gridded({"a": AS_EXPECTED})
    lines = [(line.name, line.axis, line.at) for line in lines_of(ds.isel(data=0), "a")]
    assert ("a, theta = 0.2", "groups", [2, 1]) in lines
    # Both ways from the middle of theta, where nothing is told.
    assert ("a, groups = 1", "theta", [0.4, 0.2, 0.0]) in lines
    assert ("a, groups = 2", "theta", [0.6, 0.9]) in lines
    assert len(lines) == 5 + 2 * 2


def test_trends_of_a_grid_that_is_as_expected() -> None:
    assert findings(gridded({"a": AS_EXPECTED})) == [
        # theta = 0 is the same in both schemes, and no step.
        "a: with more groups, mean accuracy falls in 4 of 4 steps (by more than 4 standard errors "
        "in 4; it rises by more in 0), and its variance grows in 4 (by more in 4; it shrinks by "
        "more in 0).",
        "a: as theta nears 1/2, mean accuracy falls in 6 of 6 steps (by more than 4 standard "
        "errors in 6; it rises by more in 0), and its variance grows in 6 (by more in 6; it "
        "shrinks by more in 0).",
    ]


def test_reversals_of_a_grid_are_counted_and_named() -> None:
    odd = AS_EXPECTED | {(2, 0.4): (0.84, 0.01)}
    found = findings(gridded({"a": odd}))
    assert found[0].startswith(
        "a: with more groups, mean accuracy falls in 3 of 4 steps (by more than 4 standard errors "
        "in 3; it rises by more in 1), and its variance grows in 3 (by more in 3; it shrinks by "
        "more in 1)."
    )
    assert found[1].startswith("a: as theta nears 1/2, mean accuracy falls in 5 of 6 steps (by")
    assert set(found[2:]) == {
        "a, theta = 0.4: mean accuracy at groups = 2 lies above that at groups = 1 (0.8000), most "
        "at groups = 2 (0.8400).",
        "a, theta = 0.4: variance of accuracy rises from 6.31e-05 at groups = 2 to 5.68e-04 at "
        "groups = 1, where it is expected to fall.",
        "a, groups = 2: mean accuracy falls from 0.8400 at theta = 0.4 to 0.8200 at theta = 0.2, "
        "where it is expected to rise.",
        "a, groups = 2: variance of accuracy rises from 6.31e-05 at theta = 0.4 to 5.68e-04 at "
        "theta = 0.2, where it is expected to fall.",
    }


def test_the_data_set_that_loses_most_comes_first() -> None:
    worse = {at: (mean - (0.1 if mean < 0.9 else 0), s) for at, (mean, s) in AS_EXPECTED.items()}
    found = findings(gridded({"good": AS_EXPECTED, "bad": worse}))
    mean = np.mean([level for level, _ in AS_EXPECTED.values()])
    variances = [(s**2 * 0.625 * 100 / 99) / 100 for _, s in AS_EXPECTED.values()]
    se = math.sqrt(sum(variances)) / 10
    assert found[4] == (
        "Accuracy lost against the undisguised learner, mean of 10 cells: "
        f"bad {0.9 - mean + 0.08:.4f} ± {se:.4f}, good {0.9 - mean:.4f} ± {se:.4f}."
    )


def test_two_test_parts_are_compared_once_a_cell() -> None:
    ds = gridded({"a": AS_EXPECTED})
    ds["accuracy_disguised"][0, 0, 1] += 0.05
    ds["disguised_mean"][0, 0, 1] += 0.05
    found = [line for line in findings(ds) if "disagree" in line]
    assert len(found) == 1
    assert found[0].startswith("a, theta = 0.2: at groups = 1 the disguised test part (0.9000)")
