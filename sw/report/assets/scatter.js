"use strict";
// Pareto fronts: two objectives against each other, the front as a line, all other points dimmed.
((R) => {
  const WEBGL_ABOVE = 2000; // as page.py has it, which lets WebGL's shaders through the policy
  const LOG_ABOVE = 20; // largest value by smallest
  const CELLS = 36; // across a figure: marks in one of them would cover each other
  const FINE_CELLS = 2000; // the same for WebGL, whose marks have no numbers
  const INK = "#000"; // of numbers on marks, which are of middle brightness in both themes
  const NAMED = 12; // labels that a hover text lists

  R.startFronts = () => {
    const host = document.querySelector("#fronts .pair");
    const has = (key) => R.data.points.some((p) => p.values[key] !== undefined);
    const keys = R.data.objectives.filter((o) => has(o.key)).map((o) => o.key);
    const pairs = [["area", "rate"], ["memory", "cycles"], ["area", "efficiency"], ["pes", "cycles"],
      ["area", "cycles"], ["memory", "rate"]];
    const first = pairs.filter((pair) => pair.every(has)).slice(0, 2);
    for (const [n, pair] of first.entries()) host.append(front(`front-${n}`, keys, pair));
  };

  const front = (id, keys, [x, y]) => {
    const axes = { x, y };
    const pick = (name) => (key) => {
      axes[name] = key;
      figure.update();
    };
    const options = keys.map((key) => [key, R.objectives.get(key).label]);
    const rows = () =>
      R.visible()
        .map((point) => ({ point, x: R.value(point, axes.x), y: R.value(point, axes.y) }))
        .filter((row) => row.x !== null && row.y !== null);
    const best = (found) =>
      R.front(found, R.objectives.get(axes.x).up, R.objectives.get(axes.y).up);
    let stacks = [];
    let all = [];
    const selected = () => all.filter((s) => s.points.some((p) => p.id === R.state.selected));

    const figure = R.figure({
      id,
      controls: [
        R.select("across", options, x, pick("x")),
        R.select("up", options, y, pick("y")),
      ],
      title: () => `${label(axes.y)} against ${label(axes.x)}, ${R.data.workloads[R.state.workload]}`,
      describe: () => {
        const found = rows();
        const names = best(found).map((n) => found[n].point.label);
        return `${R.count(found.length, "point")}, ${names.length} on the front: ${names.slice(0, NAMED).join(", ")}`;
      },
      empty: "No visible point has both figures: synthesis gives area and clock, energy is asked for in the space.",
      draw: (c) => {
        const found = rows();
        if (!found.length) return null;
        const onFront = new Set(best(found).map((n) => found[n].point));
        const kind = found.length > WEBGL_ABOVE && R.hasWebgl() ? "scattergl" : "scatter";
        const order = [...found].sort((a, b) => onFront.has(b.point) - onFront.has(a.point));
        const logs = ["x", "y"].map((name) => isLog(found.map((row) => row[name])));
        all = R.stacks(order, logs, found.length > WEBGL_ABOVE ? FINE_CELLS : CELLS);
        const dimmed = all.filter((s) => !s.points.some((p) => onFront.has(p)));
        const leading = all.filter((s) => s.points.some((p) => onFront.has(p)));
        leading.sort((a, b) => a.x - b.x);
        const chosen = selected();
        stacks = [dimmed, leading, chosen];
        const data = [
          trace(dimmed, kind, { name: "dominated", marker: { color: c.dim, size: sizes(dimmed, 7), opacity: 0.8 },
            ...counts(dimmed, kind) }),
          trace(leading, "scatter", { name: "front", mode: "lines+markers",
            line: { color: c.series[5], width: 2 },
            marker: { color: c.series[5], size: sizes(leading, 11), symbol: "diamond", opacity: 1 },
            ...counts(leading, "scatter", true) }),
          trace(chosen, "scatter", { name: "selected", marker: { size: 20, symbol: "circle-open",
            color: c.accent, line: { width: 3, color: c.accent } } }),
        ];
        return { data, layout: { xaxis: axis(axes.x, found.map((r) => r.x)),
          yaxis: axis(axes.y, found.map((r) => r.y)) } };
      },
      table: () => {
        const found = rows();
        const onFront = new Set(best(found));
        const order = found.map((_, n) => n).sort((a, b) => onFront.has(b) - onFront.has(a) || found[a].x - found[b].x);
        return {
          columns: ["point", "front", { text: label(axes.x), number: true }, { text: label(axes.y), number: true }],
          rows: order.map((n) => [R.pointButton(found[n].point), onFront.has(n) ? "on the front" : "dominated",
            R.figureText(found[n].point, axes.x), R.figureText(found[n].point, axes.y)]),
        };
      },
      click: (event) => R.openPoints(stacks[event.curveNumber][event.pointNumber].points),
    });
    const trace = (found, kind, more) => ({
      type: kind,
      mode: "markers",
      x: found.map((s) => s.x),
      y: found.map((s) => s.y),
      hovertext: found.map(hover),
      hoverinfo: "text",
      ...more,
    });
    const hover = (stack) => {
      const names = stack.points.slice(0, NAMED).map((p) => R.plain(p.label));
      if (stack.points.length > NAMED) names.push(`and ${stack.points.length - NAMED} more`);
      const [one] = stack.points;
      const at = ["x", "y"].map((name) => R.plain(R.figureText(one, axes[name])));
      return [`<b>${names.join("</b><br><b>")}</b>`, ...at].join("<br>");
    };
    R.onChange((changed) => {
      if (["workload", "text", "brushes", "theme", "data"].some((n) => changed.has(n))) {
        figure.update();
      } else if (changed.has("selected") && stacks.length) {
        stacks[2] = selected();
        const [x, y] = ["x", "y"].map((name) => stacks[2].map((s) => s[name]));
        Plotly.restyle(figure.plot, { x: [x], y: [y], hovertext: [stacks[2].map(hover)] }, [2]);
      }
    });
    figure.update();
    return figure.element;
  };

  // A mark that stands for several points is larger and has their number.
  const sizes = (stacks, size) => stacks.map((s) => s.points.length > 1 ? 17 : size);
  const counts = (stacks, kind, line = false) => {
    if (kind === "scattergl" || !stacks.some((s) => s.points.length > 1)) return {};
    return {
      mode: line ? "lines+markers+text" : "markers+text",
      text: stacks.map((s) => (s.points.length > 1 ? String(s.points.length) : "")),
      textposition: "middle center",
      textfont: { color: INK, size: 10 },
    };
  };

  const label = (key) => R.objectives.get(key).label;

  const range = (values) => [
    values.reduce((a, b) => Math.min(a, b), Infinity),
    values.reduce((a, b) => Math.max(a, b), -Infinity),
  ];
  const isLog = (values) => {
    const [least, most] = range(values);
    return least > 0 && most / least > LOG_ABOVE;
  };

  const axis = (key, values) => {
    const { unit, up } = R.objectives.get(key);
    const [least, most] = range(values);
    const log = isLog(values);
    const name = label(key).includes(unit) ? label(key) : `${label(key)}, ${unit}`;
    return {
      title: { text: `${name} (${up ? "more" : "less"} is better)` },
      type: log ? "log" : "linear",
      rangemode: log || least > most / 3 ? "normal" : "tozero",
      ...(log ? { dtick: "D2" } : {}),
    };
  };
})(Report);
