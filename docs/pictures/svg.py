"""A drawing of boxes, lines and words as SVG text, the same on every machine."""

from html import escape

# Each type has the same colour in every picture.
INT8, INT32, FLOAT32 = "#f6c177", "#9cc3e6", "#a8d5a2"
INK, GREY, LIGHT, RED = "#1f2933", "#7b8794", "#e4e7eb", "#c0392b"


class Drawing:
    """Shapes on a white sheet; coordinates in pixels from its top left corner."""

    def __init__(self, width, height, title):
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' font-family="DejaVu Sans, Verdana, sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{INK}"/></marker>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]

    def box(self, x, y, width, height, fill="none", stroke=INK, line=1.0):
        """A rectangle."""
        self.lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" stroke="{stroke}"'
            f' stroke-width="{line:g}"/>'
        )

    def line(self, x0, y0, x1, y1, stroke=INK, line=1.0, dash="", tip=False):
        """A straight line, with or without an arrowhead at its end."""
        extra = (f' stroke-dasharray="{dash}"' if dash else "") + (' marker-end="url(#tip)"' if tip else "")
        self.lines.append(
            f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" stroke="{stroke}" stroke-width="{line:g}"{extra}/>'
        )

    def dot(self, x, y, fill=INK, stroke=INK):
        """A small circle."""
        self.lines.append(f'<circle cx="{x:g}" cy="{y:g}" r="3.5" fill="{fill}" stroke="{stroke}"/>')

    def text(self, x, y, text, anchor="middle", fill=INK, size=13, code=False, bold=False):
        """A text whose baseline is at y."""
        extra = (' font-family="DejaVu Sans Mono, monospace"' if code else "") + (' font-weight="bold"' if bold else "")
        self.lines.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}" font-size="{size}"{extra}'
            f' xml:space="preserve">{escape(text, quote=False)}</text>'
        )

    def __str__(self):
        return "\n".join([*self.lines, "</svg>", ""])
