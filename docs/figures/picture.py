"""What the scripts that draw the figures share. A picture is an SVG file with a light ground of its own, so that it
reads the same on a light and on a dark page."""
import pathlib

INK, SOFT, GROUND = "#1f2933", "#6b7785", "#fbfaf7"
BLUE, RED, GREEN, YELLOW, PURPLE = "#2f6fb2", "#b8442f", "#3f8f5b", "#e3b23c", "#7a4fa3"
PALE_BLUE, PALE_GREEN, PALE_YELLOW, PALE_RED, PALE_PURPLE = "#dbe8f5", "#dcefe2", "#fbf0cf", "#f6ded8", "#e9dff3"


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
        style = ' font-family="monospace"' if mono else ""
        style += ' font-weight="bold"' if bold else ""
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
                          f'fill="{colour}"{style}>{words}</text>')

    def box(self, x, y, width, height, fill, words="", mono=False, stroke=INK, size=13, dashed=False):
        extra = ' stroke-dasharray="3 3"' if dashed else ""
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height}" rx="3" '
                          f'fill="{fill}" stroke="{stroke}"{extra}/>')
        if words:
            self.text(x + width / 2, y + height / 2 + size * 0.35, words, size, mono=mono)

    def line(self, points, colour=INK, width=1.5, tip=False, dashed=False):
        path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        extra = ' marker-end="url(#tip)"' if tip else ""
        extra += ' stroke-dasharray="4 4"' if dashed else ""
        self.parts.append(f'<path d="{path}" fill="none" stroke="{colour}" '
                          f'stroke-width="{width}"{extra}/>')

    def circle(self, x, y, radius, fill="none", stroke=INK, width=1.5):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" '
                          f'stroke="{stroke}" stroke-width="{width}"/>')

    def arc(self, x0, y, x1, height, colour, width=2):
        self.parts.append(f'<path d="M{x0} {y} Q{(x0 + x1) / 2} {y - height} {x1} {y}" fill="none" '
                          f'stroke="{colour}" stroke-width="{width}"/>')

    def svg(self):
        return "\n".join(self.parts) + "\n</svg>\n"

    def write(self, name):
        path = pathlib.Path(__file__).with_name(name)
        path.write_text(self.svg(), encoding="utf-8")
        print(path)
