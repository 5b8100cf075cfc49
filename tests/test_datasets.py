"""The bundled data sets: counts known from elsewhere, checksums, copies of one's own, codebooks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from ppdm_dask import datasets
from ppdm_dask.data.attribute import Attribute
from ppdm_dask.data.binning import fit_attribute
from ppdm_dask.data.codebook import Codebook
from ppdm_dask.errors import CodebookError, DataError
from ppdm_dask.resources import pipelines_dir

NAMES = ("adult", "breast-cancer", "votes", "pima")


@pytest.fixture(scope="module")
def frames() -> dict[str, pd.DataFrame]:
    return {name: datasets.load(name) for name in NAMES}


def book_of(name: str) -> Codebook:
    return Codebook.from_toml(pipelines_dir() / "codebooks" / f"{name}.toml")


# Facts known from the papers and the UCI documentation


@pytest.mark.parametrize(
    ("name", "shape", "classes", "missing", "complete"),
    [
        ("adult", (48_842, 15), {"<=50K": 37_155, ">50K": 11_687}, 6_465, 45_222),
        ("breast-cancer", (699, 10), {"benign": 458, "malignant": 241}, 16, 683),
        ("votes", (435, 17), {"democrat": 267, "republican": 168}, 392, 232),
        ("pima", (768, 9), {"neg": 500, "pos": 268}, 0, 768),
    ],
)
def test_counts(
    frames: dict[str, pd.DataFrame],
    name: str,
    shape: tuple[int, int],
    classes: dict[str, int],
    missing: int,
    complete: int,
) -> None:
    frame, info = frames[name], datasets.describe(name)
    assert frame.shape == shape
    assert frame[info.target].value_counts().to_dict() == classes
    assert int(frame.isna().sum().sum()) == missing
    assert len(frame.dropna()) == complete
    assert (info.n_records, info.n_attributes + 1) == shape
    assert tuple(frame.columns) == info.columns
    assert info.columns[-1] == info.target
    assert set(info.classes) == set(classes)


def test_adult(frames: dict[str, pd.DataFrame]) -> None:
    adult = frames["adult"]
    missing = adult.isna().sum()
    assert missing[missing > 0].to_dict() == {
        "workclass": 2_799,
        "occupation": 2_809,
        "native-country": 857,
    }
    # The training records come first; the percentages are those of the original documentation.
    train, test = adult[:32_561], adult[32_561:]
    assert (len(train.dropna()), len(test.dropna())) == (30_162, 15_060)
    assert round(100 * (adult["income"] == ">50K").mean(), 2) == 23.93
    assert round(100 * (adult.dropna()["income"] == ">50K").mean(), 2) == 24.78
    assert adult.iloc[0].tolist() == [
        *(39, "State-gov", 77516, "Bachelors", 13, "Never-married", "Adm-clerical"),
        *("Not-in-family", "White", "Male", 2174, 0, 40, "United-States", "<=50K"),
    ]
    assert test.iloc[0][["age", "workclass", "education", "race"]].tolist() == [
        *(25, "Private", "11th", "Black"),
    ]
    assert adult["native-country"].nunique() == 41
    texts = adult.select_dtypes(exclude="number")
    assert texts.shape[1] == 9
    assert not any(texts[name].str.contains(r"^\s|\s$|^\?$", na=False).any() for name in texts)


def test_breast_cancer(frames: dict[str, pd.DataFrame]) -> None:
    frame = frames["breast-cancer"]
    assert frame["bare-nuclei"].isna().sum() == 16
    grades = frame.drop(columns="class")
    assert all(pd.api.types.is_integer_dtype(dtype) for dtype in grades.dtypes)
    assert (grades.min().tolist(), grades.max().tolist()) == ([1] * 9, [10] * 9)
    assert len(frame.dropna().drop_duplicates()) == 449
    assert frame.dropna()["class"].value_counts().tolist() == [444, 239]


def test_votes(frames: dict[str, pd.DataFrame]) -> None:
    votes = frames["votes"].drop(columns="party")
    assert set(votes.melt()["value"].dropna()) == {"n", "y"}
    # Missing votes of each column, as the original documentation counts them.
    assert votes.isna().sum().tolist() == [
        *(12, 48, 11, 11, 15, 11, 14, 15, 22, 7, 21, 31, 25, 17, 28, 104),
    ]
    # The party lines on the physician fee freeze: 163 of 168 republicans for it.
    republicans = frames["votes"].query("party == 'republican'")
    assert (republicans["physician-fee-freeze"] == "y").sum() == 163


def test_pima(frames: dict[str, pd.DataFrame]) -> None:
    zeros = (frames["pima"].drop(columns="diabetes") == 0).sum()
    assert zeros[["glucose", "pressure", "triceps", "insulin", "mass"]].tolist() == [
        *(5, 35, 227, 374, 11),
    ]
    # Means, as the original documentation gives them.
    means = frames["pima"].drop(columns="diabetes").mean().round(1).tolist()
    assert means == [3.8, 120.9, 69.1, 20.5, 79.8, 32.0, 0.5, 33.2]


# Files


def test_bundled_files_are_small_and_nothing_else_is_there() -> None:
    paths = [datasets.describe(name).path for name in datasets.names()]
    assert datasets.names() == NAMES
    assert sum(path.stat().st_size for path in paths) < 1_000_000


def test_every_set_says_whose_it_is() -> None:
    for name in ("adult", "breast-cancer", "votes"):
        assert datasets.describe(name).licence.startswith("CC BY 4.0")
    assert "withdrawn" in datasets.describe("pima").licence
    for name in NAMES:
        info = datasets.describe(name)
        assert info.citation
        assert info.source
        assert re.fullmatch("[0-9a-f]{64}", info.sha256)


def test_provenance_names_every_file_that_was_read() -> None:
    root = Path(datasets.__file__).parents[2]
    tool = (root / "tools" / "build_datasets.py").read_text()
    pins = re.findall(r'"([\w.]+)": "([0-9a-f]{64})"', tool)
    provenance = (Path(datasets.__file__).parent / "PROVENANCE.md").read_text()
    assert len(pins) == 5
    for name, pin in pins:
        assert name in provenance
        assert pin in provenance


def test_loading_twice_gives_frames_of_their_own() -> None:
    first = datasets.load("votes")
    first.loc[0, "party"] = "whig"
    assert datasets.load("votes").loc[0, "party"] == "republican"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the bundled one."""
    for name in NAMES:
        shutil.copy(datasets.describe(name).path, tmp_path)
    monkeypatch.setattr(datasets, "_FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_one_wrong_bit_is_found(folder: Path, name: str) -> None:
    path = folder / f"{name}.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        datasets.load(name)
    message = str(caught.value)
    digests = re.findall("[0-9a-f]{64}", message)
    assert str(path) in message
    assert digests[1] == datasets.describe(name).sha256
    assert len(set(digests)) == 2
    assert "\n" not in message


def test_a_truncated_or_absent_file(folder: Path) -> None:
    path = folder / "pima.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="damaged"):
        datasets.load("pima")
    path.unlink()
    with pytest.raises(DataError, match=r"pima\.parquet: cannot be read: No such file"):
        datasets.load("pima")


def test_an_unknown_name_lists_the_names() -> None:
    for call in (datasets.load, datasets.describe):
        with pytest.raises(DataError, match="'iris'; there are adult, breast-cancer, votes, pima"):
            call("iris")


# Copies of one's own

ADULT_TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, \
2174, 0, 40, United-States, <=50K
54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, Asian-Pac-Islander, Male, \
0, 0, 60, South, >50K

"""
ADULT_TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, \
0, 0, 40, United-States, <=50K.
"""


def test_the_original_text_of_adult(tmp_path: Path, frames: dict[str, pd.DataFrame]) -> None:
    train, test = tmp_path / "adult.data", tmp_path / "adult.test"
    train.write_text(ADULT_TRAIN)
    test.write_text(ADULT_TEST)
    frame = datasets.load("adult", file=[train, test])
    adult = frames["adult"]
    same = adult.iloc[[0, 27, 32_561]].reset_index(drop=True)
    pd.testing.assert_frame_equal(frame, same)


@pytest.mark.parametrize(
    ("name", "text", "record"),
    [
        ("breast-cancer", "1000025,5,1,1,1,2,?,3,1,1,4\n", [5, 1, 1, 1, 2, None, 3, 1, 1]),
        ("pima", "6,148,72,35,0,33.6,0.627,50,1\n", [6, 148, 72, 35, 0, 33.6, 0.627, 50]),
        ("votes", "republican,n,y,n,y,y,y,n,n,n,y,?,y,y,y,n,y\n", [*"nynyyynnny", None, *"yyyny"]),
    ],
)
def test_other_original_texts(tmp_path: Path, name: str, text: str, record: list[Any]) -> None:
    path = tmp_path / "copy.data"
    path.write_text(text)
    frame = datasets.load(name, file=str(path))
    assert tuple(frame.columns) == datasets.describe(name).columns
    found = [None if pd.isna(value) else value for value in frame.iloc[0]]
    assert found[:-1] == record
    assert found[-1] == {"breast-cancer": "malignant", "pima": "pos", "votes": "republican"}[name]


def test_a_copy_of_the_bundled_file(frames: dict[str, pd.DataFrame]) -> None:
    path = datasets.describe("breast-cancer").path
    pd.testing.assert_frame_equal(
        datasets.load("breast-cancer", file=path), frames["breast-cancer"]
    )
    with pytest.raises(DataError, match=r"parquet: its columns are clump-thickness, .*; pima has"):
        datasets.load("pima", file=path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"6,148,72\n", "line 1: 3 values; pima has 9"),
        (b"\n6,148,72,35,0,33.6,0.627,50,2\n", "line 2: diabetes is '2', which pima does not"),
        (b"6,many,72,35,0,33.6,0.627,50,1\n", "line 1: glucose is 'many', which pima does not"),
        (b"6,148,72,35,0,nan,0.627,50,1\n", "line 1: mass is 'nan', which pima does not"),
        (b"\xff\xfe\x00", "is neither text nor Parquet"),
        (b"PAR1 and no more", "cannot be read as Parquet"),
    ],
)
def test_a_wrong_copy_names_file_and_line(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "copy.data"
    path.write_bytes(text)
    with pytest.raises(DataError) as caught:
        datasets.load("pima", file=path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_copy_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        datasets.load("pima", file=tmp_path / "none")
    with pytest.raises(DataError, match="no file is given"):
        datasets.load("pima", file=[])


# Codebooks of the four sets


@pytest.mark.parametrize("name", NAMES)
def test_codebooks_declare_what_occurs(frames: dict[str, pd.DataFrame], name: str) -> None:
    book, frame, info = book_of(name), frames[name], datasets.describe(name)
    assert book.names == info.columns
    assert book.target == info.target
    assert book[info.target].categories == info.classes
    records = book.encode(frame)
    for attribute in book.attributes:
        codes = records.column(attribute.name)
        missing = frame[attribute.name].isna().to_numpy()
        assert (attribute.missing is not None) == missing.any()
        if attribute.missing is not None:
            assert attribute.categories.index(attribute.missing) == 0
            assert np.array_equal(codes == 0, missing)
        if attribute.numeric:
            check_bins(attribute, frame[attribute.name])
        else:
            plain = [label for label in attribute.categories if label != attribute.missing]
            assert plain == sorted(frame[attribute.name].dropna().unique())


def check_bins(attribute: Attribute, values: pd.Series) -> None:
    assert attribute.range == (values.min(), values.max())
    if attribute.rule != "given":
        assert attribute.cuts == fit_attribute(attribute.name, values, str(attribute.rule)).cuts
    elif "1" in attribute.categories:  # a grade: its label is its number
        codes = attribute.encode(values)[values.notna()]
        assert [attribute.categories[code] for code in codes] == [
            str(value) for value in values.dropna()
        ]


@pytest.mark.parametrize("name", NAMES)
def test_labels_come_back(frames: dict[str, pd.DataFrame], name: str) -> None:
    book, frame = book_of(name), frames[name]
    nominal = book.select(a.name for a in book.attributes if not a.numeric)
    back = nominal.decode(nominal.encode(frame))
    given = frame[list(nominal.names)]
    # pandas 2 holds missing texts as NaN or None.
    written = [table.astype(object).where(table.notna(), "?") for table in (back, given)]
    pd.testing.assert_frame_equal(*written)


def test_a_codebook_without_a_category_that_occurs(frames: dict[str, pd.DataFrame]) -> None:
    config = book_of("adult").config()
    race = next(entry for entry in config["attribute"] if entry["name"] == "race")
    race["categories"].remove("Other")
    with pytest.raises(CodebookError) as caught:
        Codebook.from_config(config).encode(frames["adult"])
    row = int((frames["adult"]["race"] == "Other").to_numpy().argmax())
    assert str(caught.value) == (
        f"attribute 'race', row {row}: value 'Other' is not declared; there are "
        "'Amer-Indian-Eskimo', 'Asian-Pac-Islander', 'Black', 'White'"
    )


# Baselines on undisguised data, binarised, 80/20 splits


def accuracies(codes: npt.NDArray[Any], target: int, splits: int) -> tuple[float, float]:
    """Mean accuracy of plain naive Bayes and of the majority class on the test parts."""
    rng = np.random.default_rng(20040101)
    inputs, classes = np.delete(codes, target, axis=1).astype(float), codes[:, target].astype(int)
    right, majority = [], []
    for _ in range(splits):
        order = rng.permutation(len(codes))
        train, test = np.split(order, [len(order) * 4 // 5])
        scores = np.empty((len(test), 2))
        for c in (0, 1):
            own = inputs[train][classes[train] == c]
            p = np.clip(own.mean(axis=0), 1 / len(train), 1 - 1 / len(train))
            prior = len(own) / len(train)
            scores[:, c] = np.log(prior) + np.log(np.where(inputs[test] == 1, p, 1 - p)).sum(axis=1)
        right.append(np.mean(scores.argmax(axis=1) == classes[test]))
        majority.append(np.mean(classes[test] == np.bincount(classes[train]).argmax()))
    return float(np.mean(right)), float(np.mean(majority))


@pytest.mark.parametrize(
    ("name", "records", "rule", "splits", "accuracy", "majority"),
    [
        ("breast-cancer", 699, "midrange", 200, 0.959, 0.647),
        ("votes", 435, "midrange", 200, 0.898, 0.611),
        ("adult", 10_000, "midrange", 20, 0.758, 0.761),
        ("adult", 10_000, "median", 20, 0.804, 0.760),
    ],
)
def test_baselines(
    frames: dict[str, pd.DataFrame],
    name: str,
    records: int,
    rule: str,
    splits: int,
    accuracy: float,
    majority: float,
) -> None:
    frame = frames[name][:records]
    book = book_of(name).binarise(frame, rule)
    assert set(book.shape) == {2}
    classes = datasets.describe(name).classes
    assert book[str(book.target)].groups == ((classes[0],), (classes[1],))
    found = accuracies(book.encode(frame).codes, book.index(str(book.target)), splits)
    assert found[0] == pytest.approx(accuracy, abs=0.01)
    assert found[1] == pytest.approx(majority, abs=0.015)  # depends on the test parts alone
