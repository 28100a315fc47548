"""One SVG of the ratios: a bar for each peer and metric, on a logarithmic scale around 1. It needs nothing from elsewhere."""

import math
from xml.sax.saxutils import escape

from report import OURS, machine_line, ratio_text

LIGHT = ("#3b6fb6", "#c2622d", "#3f8f5b", "#8a5aa8")
DARK = ("#7fb0f0", "#f0a070", "#7fd09a", "#c79ae0")
LEFT, RIGHT, TOP, BAR, GAP = 320, 70, 112, 15, 12  # pixels
WIDTH = 920
LEGEND = TOP - 30


def style():
    def rules(text, faint, background, colours):
        peers = "".join(f".p{index}{{fill:{colour}}}" for index, colour in enumerate(colours))
        return f"text{{fill:{text}}}.grid{{stroke:{faint}}}.one{{stroke:{text}}}.page{{fill:{background}}}{peers}"

    return ("<style>text{font:13px system-ui,sans-serif}.small{font-size:11px}.title{font-size:16px;font-weight:600}"
            + rules("#1c1e21", "#d8dade", "#ffffff", LIGHT)
            + "@media (prefers-color-scheme:dark){" + rules("#e8e9eb", "#44474d", "#16181b", DARK) + "}</style>")


class Scale:
    """Ratios to horizontal positions: a power of two below the least, and one above the most."""

    def __init__(self, values):
        self.low = min(math.floor(math.log2(min(values, default=1))), -1)
        self.high = max(math.ceil(math.log2(max(values, default=1))), 1)

    def x(self, ratio):
        share = (math.log2(ratio) - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def ticks(self):
        return [2.0 ** power for power in range(self.low, self.high + 1)]


def text(x, y, words, anchor="start", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"' + (f' class="{kind}"' if kind else "") + f">{escape(words)}</text>"


def bar(scale, y, ratio, index, name):
    begin, end = sorted((scale.x(1.0), scale.x(ratio["median"])))
    label = ratio_text(ratio["median"])
    words = escape(f"{name}: {label} ({ratio_text(ratio['min'])} to {ratio_text(ratio['max'])})")
    outside = text(end + 5, y + BAR - 4, label, kind="small")
    return (f'<rect class="p{index}" x="{begin:.1f}" y="{y}" width="{max(end - begin, 1):.1f}" height="{BAR - 3}">'
            f"<title>{words}</title></rect>{outside}")


def legend(names):
    parts, x = [], LEFT
    for index, name in enumerate(names):
        parts.append(f'<rect class="p{index}" x="{x}" y="{LEGEND}" width="12" height="12"/>')
        parts.append(text(x + 17, LEGEND + 11, name))
        x += 34 + 8 * len(name)
    return parts


def svg(about, rows):
    peers = {key: index for index, key in enumerate(key for key in about["names"] if key != OURS)}
    rows = [row for row in rows if row["ratios"]]
    scale = Scale([ratio["median"] for row in rows for ratio in row["ratios"].values()])
    body, y = [], TOP
    for row in rows:
        height = BAR * len(row["ratios"])
        body.append(text(LEFT - 12, y + height / 2 + 4, row["title"], "end"))
        for offset, (key, ratio) in enumerate(row["ratios"].items()):
            body.append(bar(scale, y + BAR * offset, ratio, peers[key], about["names"][key]))
        y += height + GAP
    grid = [f'<line class="{"one" if tick == 1 else "grid"}" x1="{scale.x(tick):.1f}" x2="{scale.x(tick):.1f}" y1="{TOP - 8}" y2="{y}"/>'
            for tick in scale.ticks()]
    ticks = [text(scale.x(tick), y + 16, f"{tick:g}", "middle", "small") for tick in scale.ticks()]
    title = "Octavo's speed over each peer's" + (" (quick run: no figure means anything)" if about["quick"] else "")
    head = [text(16, 26, title, kind="title"), *(text(16, 46 + 16 * line, words, kind="small") for line, words in enumerate(subtitles(about))),
            *legend([about["names"][key] for key in peers])]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 30}" width="{WIDTH}" height="{y + 30}" role="img">',
                      f"<title>{escape(title)}</title>", style(), f'<rect class="page" width="{WIDTH}" height="{y + 30}"/>',
                      *grid, *head, *body, *ticks, "</svg>"]) + "\n"


def subtitles(about):
    amx = "" if about["amx"] else "; peers without AMX"
    return (f"{about['model']}, {about['threads']} threads{amx}; median of {about['repeat']}, {about['date'][:10]}; above 1 octavo is faster",
            machine_line(about).split("; ")[0])
