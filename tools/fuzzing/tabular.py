"""Damage to tables: fields and lines of CSV; columns, types and metadata of Parquet."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fuzzing.chance import Chance
from fuzzing.rawbytes import damage_bytes
from fuzzing.trees import damage_tree

__all__ = ["damage_csv", "damage_excel", "damage_parquet"]

CELLS = (
    "",
    " ",
    "nan",
    "NA",
    "inf",
    "-1",
    "0",
    "1e400",
    "9" * 400,
    "9" * 5_000,
    "9223372036854775808",
    "0.1e-320",
    "0x10",
    "1_000",
    "١٢",
    "\u202e",
    "e\u0301",
    "a" * 140_000,
    "\x00",
    "\x1b[2J",
    "\udc80",
    '"',
    '""',
    '"a',
    'a"b',
    '"a\nb"',
    "a\rb",
    "=1+1",
    "true",
    "2020-01-01",
    "yes ",
    "YES",
)


def damage_excel(content: bytes, chance: Chance) -> bytes:
    """Damage the bytes of one member of an archive that stays sound."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    sheet = [name for name in members if "sheet" in name]
    name = chance.pick(sheet if chance.coin(0.7) else list(members))
    members[name] = damage_bytes(members[name], chance)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, member in members.items():
            archive.writestr(zipfile.ZipInfo(each), member)
    return made.getvalue()


def damage_csv(content: bytes, chance: Chance) -> bytes:
    """Change fields, lines, names or the dialect of a CSV file."""
    lines = content.decode().split("\n")
    for _ in range(chance.pick((1, 1, 1, 2, 4))):
        at = 0 if chance.coin(0.2) else chance.below(len(lines))
        fields = lines[at].split(",")
        act = chance.below(14)
        if act < 5:
            fields[chance.below(len(fields))] = chance.pick(CELLS)
        elif act == 5:
            del fields[chance.below(len(fields))]
        elif act == 6:
            fields.insert(chance.below(len(fields) + 1), chance.pick(CELLS))
        elif act == 7:
            lines[at:at] = [chance.pick(("", lines[at], ",", '"', lines[0]))]
            continue
        elif act == 8:
            fields[chance.below(len(fields))] = chance.pick(fields)
        elif act == 9 and len(lines) > 2:
            del lines[at]
            continue
        elif act == 10:
            lines = [line.replace(",", chance.pick(";\t|")) for line in lines]
            continue
        elif act == 11:
            return _encoded("\n".join(lines), chance)
        elif act == 12:
            lines = lines[:1] if chance.coin(0.5) else lines * chance.pick((2, 20))
            continue
        else:
            column = chance.below(len(fields))
            lines = [_without(line, column) for line in lines]
            continue
        lines[at] = ",".join(fields)
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _without(line: str, column: int) -> str:
    fields = line.split(",")
    return ",".join(fields[:column] + fields[column + 1 :])


def _encoded(text: str, chance: Chance) -> bytes:
    how = chance.below(5)
    if how == 0:
        return text.replace("e", "é").encode("latin-1", "replace")
    if how == 1:
        return text.encode("utf-16", "surrogatepass")
    if how == 2:
        return b"\xef\xbb\xbf" * chance.pick((1, 2)) + text.encode("utf-8", "surrogateescape")
    return text.replace("\n", "\r\n" if how == 3 else "\r").encode("utf-8", "surrogateescape")


def damage_parquet(content: bytes, chance: Chance) -> bytes:
    """Change columns, their types, or what a Parquet file says of itself."""
    table = pq.read_table(io.BytesIO(content))
    for _ in range(chance.pick((1, 1, 2))):
        try:
            table = _changed(table, chance)
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            continue  # this table does not go that way
    out = io.BytesIO()
    options: dict[str, Any] = {
        "row_group_size": chance.pick((1, 7, 1_000)),
        "compression": chance.pick(("snappy", "none", "zstd")),
        "use_dictionary": chance.coin(0.5),
        "store_schema": chance.coin(0.8),
    }
    try:
        pq.write_table(table, out, **options)
    except (pa.ArrowException, ValueError):
        return content[: chance.below(len(content))]
    return out.getvalue()


TYPES = (
    pa.int8(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.timestamp("ns"),
    pa.timestamp("s", tz="UTC"),
    pa.date32(),
    pa.duration("us"),
    pa.decimal128(38, 10),
    pa.null(),
    pa.time64("ns"),
)


def _changed(table: pa.Table, chance: Chance) -> pa.Table:
    act = chance.below(12)
    at = chance.below(table.num_columns)
    if act <= 2 and table.num_columns:
        return table.set_column(at, table.field(at).name, _cast(table.column(at), chance))
    if act == 3:
        names = list(table.column_names)
        if names:
            names[at] = chance.pick((*CELLS[:16], *names))
        return table.rename_columns(names)
    if act == 4 and table.num_columns:
        return table.remove_column(at)
    if act == 5 and table.num_columns:
        return table.append_column(chance.pick(("", table.column_names[at], "x")), table.column(at))
    if act == 6:
        return table.slice(0, chance.pick((0, 1, 2)))
    if act == 7:
        return table.select([]) if chance.coin(0.3) else pa.concat_tables([table] * 3)
    if act == 8 and table.num_columns:
        some = pa.array([chance.coin(0.7) for _ in range(table.num_rows)])
        holes = pc.if_else(some, table.column(at), pa.scalar(None, table.field(at).type))
        return table.set_column(at, table.field(at).name, holes)
    return table.replace_schema_metadata(_metadata(dict(table.schema.metadata or {}), chance))


def _cast(column: pa.ChunkedArray, chance: Chance) -> Any:
    how = chance.below(6)
    if how == 0:
        value = chance.pick((2**62, -1, 2**63 - 1, 0, 10**6))
        return pa.array([value] * len(column), pa.int64())
    if how == 1:
        return pa.array([[1], []] * (len(column) // 2) + [[1]] * (len(column) % 2))
    if how == 2:
        return pa.array([{"a": 1}] * len(column))
    if how == 3:
        value = chance.pick((float("nan"), float("inf"), -0.0, 1e300, 0.5))
        return pa.array([value] * len(column))
    if how == 4:
        text = chance.pick([cell for cell in CELLS if "\udc80" not in cell])
        return pa.array([text] * len(column))
    return column.cast(chance.pick(TYPES), safe=chance.coin(0.3))


def _metadata(metadata: dict[bytes, bytes], chance: Chance) -> dict[bytes, bytes]:
    key = chance.pick([*metadata, b"ppdm", b"pandas", b"ARROW:schema"])
    act = chance.below(5)
    if act == 0:
        metadata.pop(key, None)
    elif act == 1:
        metadata[key] = chance.pick((b"", b"{}", b"null", b"[" * 5_000, b"\xff\xfe", b"1", b"[1]"))
    elif key in metadata:
        try:
            tree = damage_tree(json.loads(metadata[key]), chance)
        except (ValueError, RecursionError):
            metadata[key] = chance.bytes(40)
        else:
            metadata[key] = json.dumps(tree).encode("utf-8", "surrogatepass")
    else:
        metadata[key] = json.dumps(damage_tree({"index_columns": ["a"]}, chance)).encode()
    return metadata
