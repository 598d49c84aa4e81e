"""What the scripts that draw the figures of measurements share. A picture is an SVG file with a light ground of its
own, so that it reads the same on a light and on a dark page."""
import json
import pathlib

EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent / "experiments"
INK, SOFT, GROUND, FAINT, GRID = "#1f2933", "#6b7785", "#fbfaf7", "#c3cad1", "#dde2e6"
BLUE, RED, GREEN, PURPLE, BROWN, PINK = "#2f6fb2", "#b8442f", "#3f8f5b", "#7a4fa3", "#b0851c", "#c2569b"
PALE_BLUE, PALE_GREEN, PALE_YELLOW, PALE_RED, PALE_PURPLE = "#dbe8f5", "#dcefe2", "#fbf0cf", "#f6ded8", "#e9dff3"
COLOURS = [BLUE, GREEN, BROWN, RED, PURPLE, PINK, SOFT, INK]
CORNERS = {"square": [(-1, -1), (1, -1), (1, 1), (-1, 1)], "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
           "up": [(0, -1.2), (1.2, 1), (-1.2, 1)], "down": [(0, 1.2), (1.2, -1), (-1.2, -1)]}


def read(name):
    """A file of results."""
    return json.loads((EXPERIMENTS / name).read_text(encoding="utf-8"))


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height = width, height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="Helvetica, Arial, sans-serif" role="img">',
            f"<title>{title}</title>",
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            f'markerHeight="7" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{INK}"/>'
            "</marker></defs>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>']

    def text(self, x, y, words, size=13, anchor="middle", colour=INK, mono=False, bold=False):
        style = ' font-family="monospace"' * mono + ' font-weight="bold"' * bold
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
                          f'fill="{colour}"{style}>{words}</text>')

    def note(self, x, y, words, size=12, colour=SOFT, **style):
        self.text(x, y, words, size, "start", colour, **style)

    def box(self, x, y, width, height, fill, stroke=INK, dashed=False):
        extra = ' stroke-dasharray="3 3"' * dashed
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height}" rx="3" '
                          f'fill="{fill}" stroke="{stroke}"{extra}/>')

    def line(self, points, colour=INK, width=1.5, dashed=False):
        path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        extra = ' stroke-dasharray="4 4"' * dashed
        self.parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{extra}/>')

    def mark(self, x, y, shape, colour, filled=False, size=4.5):
        """A point of a measurement. Shapes, so that nothing hangs on colours alone."""
        fill = colour if filled else GROUND
        if shape == "circle":
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{fill}" '
                              f'stroke="{colour}" stroke-width="1.5"/>')
            return
        path = " L".join(f"{x + dx * size * 0.9:.1f} {y + dy * size * 0.9:.1f}" for dx, dy in CORNERS[shape])
        self.parts.append(f'<path d="M{path}Z" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>')

    def legend(self, x, y, entries, filled=False, step=(0, 24), gap=14):
        """entries: (words, shape, colour)."""
        for i, (words, shape, colour) in enumerate(entries):
            at = x + step[0] * i, y + step[1] * i
            self.mark(*at, shape, colour, filled)
            self.note(at[0] + gap, at[1] + 4, words, colour=INK)

    def boxes(self, y, entries, size=13):
        """A legend of boxes side by side: (x, fill, stroke, words)."""
        for x, fill, stroke, words in entries:
            self.box(x, y, size, size, fill, stroke)
            self.note(x + size + 6, y + 11, words, colour=INK)

    def svg(self):
        return "\n".join(self.parts) + "\n</svg>\n"


class Axes:
    """A frame with two linear scales in a picture. Names: of the marks on a scale, where a number will not do."""

    def __init__(self, picture, left, top, right, bottom, xs, ys, x_name="{:g}".format, y_name="{:g}".format):
        self.p, self.left, self.top, self.right, self.bottom = picture, left, top, right, bottom
        (self.x0, self.x1), (self.y0, self.y1) = (xs[0], xs[-1]), (ys[0], ys[-1])
        for x in xs:
            picture.line([(self.x(x), top), (self.x(x), bottom)], GRID, 1)
            picture.text(self.x(x), bottom + 18, x_name(x), 11, colour=SOFT)
        for y in ys:
            picture.line([(left, self.y(y)), (right, self.y(y))], GRID, 1)
            picture.text(left - 8, self.y(y) + 4, y_name(y), 11, "end", SOFT)

    def x(self, x):
        return self.left + (self.right - self.left) * (x - self.x0) / (self.x1 - self.x0)

    def y(self, y):
        return self.bottom - (self.bottom - self.top) * (y - self.y0) / (self.y1 - self.y0)

    def titles(self, above, below):
        self.p.note(self.left, self.top - 16, above, 13, INK, bold=True)
        self.p.text((self.left + self.right) / 2, self.bottom + 38, below, 12)

    def curve(self, points, colour, width=2, dashed=False):
        """Cut where it leaves the frame."""
        inside = [(self.x(x), self.y(y)) for x, y in points if self.y0 <= y <= self.y1 and self.x0 <= x <= self.x1]
        if inside:
            self.p.line(inside, colour, width, dashed=dashed)

    def level(self, y, colour=INK, width=1, dashed=False):
        self.curve([(self.x0, y), (self.x1, y)], colour, width, dashed)

    def mark(self, x, y, shape, colour, filled=False):
        self.p.mark(self.x(x), self.y(y), shape, colour, filled)

    def series(self, points, shape, colour, width=2, filled=False):
        """Measured points, with a curve through them."""
        self.curve(points, colour, width)
        for x, y in points:
            self.mark(x, y, shape, colour, filled)
