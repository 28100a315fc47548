"""From samples to ratios, and to the tables and the JSON that show them."""

import statistics

OURS = "octavo"


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratios(ours, theirs):
    """Of two lists of samples, repetition by repetition: what the machine did to both cancels out."""
    return spread([a / b for a, b in zip(ours, theirs)])


def row_of(metric, cells):
    """One metric: figures and reasons of every engine, our ratios to the peers and to the best of them."""
    figures = {key: {**spread(cell.samples), "samples": cell.samples} for key, cell in cells.items() if cell.samples}
    row = {"metric": metric.key, "title": metric.title, "figures": figures,
           "reasons": {key: cell.reason for key, cell in cells.items() if cell.reason}, "ratios": {}, "best": None}
    peers = [key for key in figures if key != OURS]
    if OURS in figures:
        row["ratios"] = {key: ratios(cells[OURS].samples, cells[key].samples) for key in peers}
    if peers:
        row["best"] = max(peers, key=lambda key: figures[key]["median"])
    return row


def rows_of(metrics, cells):
    return [row_of(metric, cells[metric.key]) for metric in metrics]


def ratio_text(value):
    """Three digits: 0.97, 2.62, 14.4."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def table(header, lines):
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *lines])


def ratio_table(rows, names):
    """Markdown; names is {engine key: name}, ours among them. Above 1 ours is faster."""
    peers = [key for key in names if key != OURS]
    lines = []
    for row in rows:
        cells = [ratio_text(row["ratios"][key]["median"]) if key in row["ratios"] else "-" for key in peers]
        best = row["ratios"].get(row["best"])
        cells.append(f"{ratio_text(best['median'])} ({names[row['best']]})" if best else "-")
        lines.append([row["title"], *cells])
    return table(["octavo / peer", *(names[key] for key in peers), "best of them"], lines)


def figure_text(figure):
    return f"{figure['median']:.4g} ({figure['min']:.4g} to {figure['max']:.4g})"


def figure_table(rows, names):
    lines = [[row["title"], *(figure_text(row["figures"][key]) if key in row["figures"] else "-" for key in names)]
             for row in rows]
    return table(["tokens/s, median (least to most)", *names.values()], lines)


def reasons_list(rows, names):
    """One line for each reason, with the metrics that it holds for."""
    found = {}
    for row in rows:
        for key, reason in row["reasons"].items():
            found.setdefault((key, reason), []).append(row["metric"])
    return [f"* {names[key]}, {'every metric' if len(metrics) == len(rows) else ', '.join(metrics)}: {reason}"
            for (key, reason), metrics in found.items()]


def machine_line(about):
    info = about["machine"]
    return (f"{info['model']}, {info['cpus']} processors, {' '.join(info['flags'])}, Linux {info['kernel']}; load average before "
            f"{info['load_average'][0]:.2f}")


def markdown(about, rows):
    names = about["names"]
    parts = []
    if about["quick"]:
        parts.append("**A quick run: lengths are an eighth of what the rows say. It shows that everything works; its figures mean "
                     "nothing.**")
    repeat = f"{about['repeat']} repetitions" if about["repeat"] > 1 else "1 repetition"
    parts.append(f"{about['model']}, {about['threads']} threads, {repeat}, {about['date']}. {machine_line(about)}. Above 1 octavo is "
                 f"faster.{'' if about['amx'] else ' ' + WITHOUT_AMX}")
    parts.append(ratio_table(rows, names))
    parts.append("Of this machine and this run alone, not to be quoted:")
    parts.append(figure_table(rows, names))
    versions = [f"* {names[key]}: {', '.join(describe(value))}" for key, value in about["engines"].items() if value]
    parts.append("\n".join(versions))
    reasons = reasons_list(rows, names)
    if reasons:
        parts.append("Without a figure:\n\n" + "\n".join(reasons))
    return "\n\n".join(part for part in parts if part) + "\n"


def describe(about):
    """The words of an engine's `about`; what it was started with is in the JSON alone."""
    return [value if key in ("version", "build", "flags") else f"{key} {value}" for key, value in about.items()
            if value and isinstance(value, str)]


WITHOUT_AMX = ("The peers were kept from AMX: llama.cpp and ik_llama.cpp built without it, oneDNN (OpenVINO, vLLM) asked not to use it "
               "(ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16).")
