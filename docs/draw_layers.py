"""Draw the layers of the project from its imports.

    python docs/draw_layers.py

Every room of mac_policy, and the folders that use them, is a box; it stands one row above the highest room that it
imports. A line leads from a room to the rooms that it imports and that none of its other imports reaches already.
Writes docs/images/layers.svg.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "layers.svg"
OUTSIDE = ("envs", "scripts", "benchmarks", "examples")
BOX, GAP, STEP = (132, 40), 24, 92  # width and height of a box, gap between boxes, distance of rows, in pixels


def rooms() -> dict[str, Path]:
    """Name and folder of everything that is drawn."""
    inside = {path.parent.name: path.parent for path in (ROOT / "mac_policy").glob("*/__init__.py")}
    return inside | {name: ROOT / name for name in OUTSIDE}


def modules(path: Path) -> set[str]:
    """Every module that a file names in an import, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imports() -> dict[str, set[str]]:
    """For every room the other rooms that one of its files imports."""
    found = rooms()
    used = {
        room: {
            name.removeprefix("mac_policy.").split(".")[0]
            for path in folder.rglob("*.py")
            for name in modules(path)
            if name.startswith(("mac_policy.", *(f"{o}." for o in OUTSIDE)))
        }
        for room, folder in found.items()
    }
    return {room: (used[room] & found.keys()) - {room} for room in found}


def level(room: str, uses: dict[str, set[str]], path: tuple[str, ...] = ()) -> int:
    """Row of a room, counted from below; a circle of imports is an error."""
    if room in path:
        raise ValueError(f"rooms import each other in a circle: {' -> '.join([*path, room])}")
    return max((level(other, uses, (*path, room)) + 1 for other in uses[room]), default=0)


def reachable(room: str, uses: dict[str, set[str]]) -> set[str]:
    return uses[room].union(*(reachable(other, uses) for other in uses[room]))


def direct(room: str, uses: dict[str, set[str]]) -> set[str]:
    """The imports of a room that none of its other imports reaches."""
    return {other for other in uses[room] if not any(other in reachable(way, uses) for way in uses[room] - {other})}


def places(uses: dict[str, set[str]]) -> dict[str, tuple[int, int]]:
    """Upper left corner of every room's box; each row in the middle of the picture."""
    levels = {room: level(room, uses) for room in uses}
    rows = [sorted(room for room in uses if levels[room] == row) for row in range(max(levels.values()) + 1)]
    widths = [len(row) * (BOX[0] + GAP) - GAP for row in rows]
    return {
        room: ((max(widths) - width) // 2 + GAP + column * (BOX[0] + GAP), GAP + (len(rows) - 1 - row) * STEP)
        for row, (members, width) in enumerate(zip(rows, widths, strict=True))
        for column, room in enumerate(members)
    }


def draw(uses: dict[str, set[str]]) -> str:
    """The picture as SVG."""
    place = places(uses)
    width = max(x for x, _ in place.values()) + BOX[0] + GAP
    height = max(y for _, y in place.values()) + BOX[1] + GAP
    lines = [
        f'<line x1="{place[room][0] + BOX[0] // 2}" y1="{place[room][1] + BOX[1]}"'
        f' x2="{place[other][0] + BOX[0] // 2}" y2="{place[other][1]}"/>'
        for room in sorted(uses)
        for other in sorted(direct(room, uses))
    ]
    boxes = [
        f'<rect class="{"outside" if room in OUTSIDE else "room"}" x="{x}" y="{y}" width="{BOX[0]}" height="{BOX[1]}"'
        f' rx="6"/><text x="{x + BOX[0] // 2}" y="{y + BOX[1] // 2 + 5}">{room}</text>'
        for room, (x, y) in sorted(place.items())
    ]
    style = (
        "line{stroke:#9aa0b5;stroke-width:1.5} rect{stroke:#3f51b5;stroke-width:1.5} .room{fill:#e8eaf6}"
        " .outside{fill:#fff} text{font:14px sans-serif;text-anchor:middle;fill:#1a237e}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    ground = f'<rect width="{width}" height="{height}" style="fill:#fff;stroke:none"/>'
    return "\n".join([head, f"<style>{style}</style>", ground, *lines, *boxes, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(imports()))
    print(PICTURE.relative_to(ROOT))
