"""Mutants of a module: one expression changed, as a slip of the pen or a wrong formula would be."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

__all__ = ["Mutant", "mutants_of"]


@dataclass(frozen=True)
class Mutant:
    """One change of one module.

    Parameters
    ----------
    module : str
        Dotted name.
    path : Path
        Its source.
    function : str
        Qualified name of the function in which the change is, empty at the module's level.
    line : int
        Where the changed statement begins.
    original, mutated : str
        The statement before and after, of a compound one its head.
    place, variant : int
        Number of the node in the tree, and of the change among those of the node.
    inside : bool
        Whether the statement is within a function, and so runs when that is called.
    """

    module: str
    path: Path
    function: str
    line: int
    original: str
    mutated: str
    place: int
    variant: int
    inside: bool

    @property
    def key(self) -> tuple[str, str, str]:
        """What names a mutant whichever lines stand above it."""
        return self.module, self.function, self.mutated

    def code(self) -> CodeType:
        """The changed module, compiled."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        for number, (node, parents) in enumerate(_nodes(tree)):
            if number == self.place:
                changed = list(_changes(node, parents))[self.variant]
                _replace(parents[-1], node, changed)
                return compile(ast.fix_missing_locations(tree), str(self.path), "exec")
        raise RuntimeError(f"{self.path}: there is no node {self.place}; was the file changed?")


def mutants_of(module: str, path: Path) -> list[Mutant]:
    """All mutants of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for place, (node, parents) in enumerate(_nodes(tree)):
        statement = next(
            (p for p in reversed((*parents, node)) if isinstance(p, ast.stmt)), parents[0]
        )
        names = [p.name for p in parents if isinstance(p, ast.FunctionDef | ast.ClassDef)]
        original = _head(statement)
        for variant, changed in enumerate(_changes(node, parents)):
            _replace(parents[-1], node, changed)
            mutated = _head(changed if statement is node else statement)
            _replace(parents[-1], changed, node)
            if mutated != original:
                found.append(
                    Mutant(
                        module,
                        path,
                        ".".join(names),
                        statement.lineno,
                        original,
                        mutated,
                        place,
                        variant,
                        isinstance(_innermost(parents), ast.FunctionDef),
                    )
                )
    return found


def _innermost(parents: tuple[ast.AST, ...]) -> ast.AST | None:
    """The innermost function or class around a node."""
    scopes = [p for p in parents if isinstance(p, ast.FunctionDef | ast.ClassDef)]
    return scopes[-1] if scopes else None


def _head(statement: ast.AST) -> str:
    """Text of a statement, without the statements within it."""
    if hasattr(statement, "body") and isinstance(statement.body, list):
        statement = copy.copy(statement)
        statement.body = [ast.Pass()]
        for name in ("orelse", "finalbody", "handlers"):
            if isinstance(getattr(statement, name, None), list):
                setattr(statement, name, [])
        if isinstance(statement, ast.FunctionDef):
            statement.decorator_list = []
        text = ast.unparse(ast.fix_missing_locations(statement))
        return text.removesuffix("pass").strip()
    return ast.unparse(statement)


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    """Every node that may be changed, with its parents, in the order of the source."""
    stack: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(tree, ())]
    while stack:
        node, parents = stack.pop()
        if parents:
            yield node, parents
        children = [child for child in _children(node) if not _spared(child)]
        stack += [(child, (*parents, node)) for child in reversed(children)]


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        # Annotations and decorators say nothing about numbers; a text is no number either.
        if name in ("annotation", "returns", "decorator_list", "type_comment", "ctx"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


HELD = ("strict", "copy", "frozen", "repr", "eq", "stacklevel")
"""Arguments that guard against slips, or say how an object is held; none is a number."""


def _spared(node: ast.AST) -> bool:
    """Messages, docstrings, imports, types and names for readers are no part of the numbers."""
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.keyword):
        return node.arg in HELD
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "__slots__"):
        return True
    if isinstance(node, ast.FunctionDef):
        return node.name in ("__repr__", "__str__") or node.name.endswith(("_error", "_message"))
    if isinstance(node, ast.Call):  # messages are made there too
        return ast.unparse(node.func).split(".")[-1].endswith(("Error", "_error", "error"))
    return False


SWAPPED_OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitOr,),
}
SWAPPED_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
SWAPPED_NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "zeros": "ones",
    "ones": "zeros",
    "cumsum": "cumprod",
    "logical_and": "logical_or",
    "logical_or": "logical_and",
    "first": "last",
}
COMMUTATIVE = (
    "broadcast",
    "broadcast_shapes",
    "gcd",
    "hypot",
    "isclose",
    "logaddexp",
    "max",
    "maximum",
    "min",
    "minimum",
    "result_type",
)
DROPPED_CALLS = ("abs", "sqrt", "square", "exp", "log", "sorted", "cumsum", "conj", "floor", "ceil")


def _changes(node: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[ast.AST]:
    """The ways in which a node is changed."""
    around = (parent for parent in reversed(parents) if not isinstance(parent, ast.Tuple))
    indexing = isinstance(next(around, None), ast.Subscript)
    if isinstance(node, ast.Constant) and isinstance(parents[-1], ast.UnaryOp):
        return  # -1 becomes 1 with its sign; -2 says "the rest" as well
    if isinstance(node, ast.BinOp):
        yield from _changed_operation(node)
    elif isinstance(node, ast.AugAssign):
        for operator in SWAPPED_OPERATORS.get(type(node.op), ()):
            yield _like(node, op=operator())
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for comparison in SWAPPED_COMPARISONS[type(node.ops[0])]:
            yield _like(node, ops=[comparison()])
    elif isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            for comparison in SWAPPED_COMPARISONS[type(op)][:1]:
                yield _like(node, ops=[*node.ops[:i], comparison(), *node.ops[i + 1 :]])
    elif isinstance(node, ast.BoolOp):
        yield _like(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for i in range(len(node.values)):
            rest = node.values[:i] + node.values[i + 1 :]
            yield rest[0] if len(rest) == 1 else _like(node, values=rest)
    elif isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.USub | ast.Not | ast.Invert):
            yield node.operand
    elif isinstance(node, ast.Constant):
        yield from _changed_constant(node, indexing)
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield _like(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Call):
        yield from _changed_call(node)


def _changed_operation(node: ast.BinOp) -> Iterator[ast.AST]:
    if any(_is_text(side) for side in (node.left, node.right)):
        return
    for operator in SWAPPED_OPERATORS.get(type(node.op), ()):
        yield _like(node, op=operator())
    if isinstance(node.op, ast.Add | ast.Mult):
        yield node.left
        yield node.right
    elif isinstance(node.op, ast.Sub | ast.Div | ast.Pow):
        yield node.left
    if isinstance(node.op, ast.Sub | ast.Div | ast.MatMult | ast.Pow):
        yield _like(node, left=node.right, right=node.left)
    if isinstance(node.op, ast.Mult | ast.Div | ast.MatMult):
        yield ast.UnaryOp(ast.USub(), node)


def _is_text(node: ast.AST) -> bool:
    texts = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return texts or isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)


def _changed_constant(node: ast.Constant, indexing: bool) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        if not (value == 0 and indexing):  # the first is the last of one
            yield ast.Constant(value - 1)
    elif isinstance(value, float):
        yield ast.Constant(value + 1)
        yield ast.Constant(value * 2 if value else 0.5)


def _changed_call(node: ast.Call) -> Iterator[ast.AST]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    name = node.func.id if isinstance(node.func, ast.Name) else name
    if name in SWAPPED_NAMES:
        other = SWAPPED_NAMES[name]
        if isinstance(node.func, ast.Name):
            yield _like(node, func=ast.Name(other, ast.Load()))
        elif isinstance(node.func, ast.Attribute):
            yield _like(node, func=_like(node.func, attr=other))
    if name in DROPPED_CALLS and len(node.args) == 1:
        yield node.args[0]
    if name in COMMUTATIVE:
        return
    plain = not any(isinstance(argument, ast.Starred) for argument in node.args[:2])
    if len(node.args) >= 2 and plain and name not in ("isinstance", "getattr", "zip"):
        yield _like(node, args=[node.args[1], node.args[0], *node.args[2:]])


def _like(node: ast.AST, **changes: object) -> ast.AST:
    """A shallow copy with other fields."""
    made = copy.copy(node)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put a node in the place of another one."""
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
            return
        if isinstance(value, list):
            for i, item in enumerate(value):
                if item is old:
                    value[i] = new
                    return
    raise RuntimeError("a node is not below its parent")
