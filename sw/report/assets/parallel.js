"use strict";
// Parallel coordinates: an axis for each field that differs and each objective, a line for each
// point. A range on an axis filters every figure: by drag, or by the two numbers below the axis.
((R) => {
  const HEIGHT = 270;
  const PAD = { top: 30, bottom: 24, side: 60 };
  const MOST_AXES = 12;
  const MOST_LINES = 1000; // more are a blot: every n-th is drawn then

  let axes = [];
  let canvas, stage, ranges, note, drag;

  const findAxes = () => {
    const legal = R.data.points.filter((p) => !p.reason);
    const keys = R.data.objectives.map((o) => o.key).filter((key) => key !== "pes");
    const fields = [...new Set(legal.flatMap((p) => Object.keys(p.changes)))];
    const names = [...fields.map((f) => `field:${f}`), ...keys];
    return names
      .map((name) => {
        const values = legal.map((p) => R.axisValue(p, name)).filter((v) => v !== null && !Number.isNaN(v));
        const least = values.reduce((a, b) => Math.min(a, b), Infinity);
        const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
        return { name, least, most, log: least > 0 && most / least > 20 };
      })
      .filter((axis) => axis.least < axis.most)
      .slice(0, MOST_AXES);
  };

  const title = (axis) => {
    if (axis.name.startsWith("field:")) return axis.name.slice(6);
    const { label, unit } = R.objectives.get(axis.name);
    return label.includes(unit) ? label : `${label}, ${unit}`;
  };

  const share = (axis, value) =>
    axis.log
      ? Math.log(value / axis.least) / Math.log(axis.most / axis.least)
      : (value - axis.least) / (axis.most - axis.least);

  const valueAt = (axis, part) =>
    axis.log
      ? axis.least * (axis.most / axis.least) ** part
      : axis.least + part * (axis.most - axis.least);

  const across = (n) => {
    const width = canvas.clientWidth - 2 * PAD.side;
    return PAD.side + (axes.length > 1 ? (n * width) / (axes.length - 1) : width / 2);
  };
  const down = (part) => HEIGHT - PAD.bottom - part * (HEIGHT - PAD.top - PAD.bottom);
  const partAt = (y) =>
    Math.min(1, Math.max(0, (HEIGHT - PAD.bottom - y) / (HEIGHT - PAD.top - PAD.bottom)));

  const draw = () => {
    const scale = devicePixelRatio || 1;
    const c = R.colours();
    canvas.width = canvas.clientWidth * scale;
    canvas.height = HEIGHT * scale;
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const inside = new Set(R.visible());
    const legal = R.data.points.filter((p) => !p.reason);
    const crowd = Math.min(1, 60 / Math.max(1, inside.size)) * 0.75 + 0.12;
    lines(pen, some(legal.filter((p) => !inside.has(p))), c.dim, 0.18, 1);
    lines(pen, some([...inside]), c.series[0], crowd, 1.2);
    const selected = R.byId.get(R.state.selected);
    if (selected && !selected.reason) lines(pen, [selected], c.series[5], 1, 3);
    axes.forEach((axis, n) => {
      const x = across(n);
      pen.globalAlpha = 1;
      pen.strokeStyle = c.muted;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x, down(0));
      pen.lineTo(x, down(1));
      pen.stroke();
      const brush = drag?.axis === axis ? drag.range : R.state.brushes[axis.name];
      if (brush) {
        const [low, high] = brush.map((v) => share(axis, Math.min(axis.most, Math.max(axis.least, v))));
        pen.fillStyle = c.series[5];
        pen.globalAlpha = 0.55;
        pen.fillRect(x - 5, down(high), 10, Math.max(2, down(low) - down(high)));
      }
      pen.globalAlpha = 1;
      pen.fillStyle = c.text;
      pen.font = "12px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.fillText(R.show(axis.most), x, PAD.top - 10);
      pen.fillText(R.show(axis.least), x, HEIGHT - 7);
    });
    describe(inside.size, legal.length);
  };

  const some = (points) => {
    const step = points.length / MOST_LINES;
    return step > 1 ? Array.from({ length: MOST_LINES }, (_, n) => points[Math.floor(n * step)]) : points;
  };

  const lines = (pen, points, colour, alpha, width) => {
    pen.strokeStyle = colour;
    pen.globalAlpha = alpha;
    pen.lineWidth = width;
    for (const point of points) {
      pen.beginPath();
      let joined = false;
      axes.forEach((axis, n) => {
        const value = R.axisValue(point, axis.name);
        if (value === null || Number.isNaN(value)) {
          joined = false;
          return;
        }
        pen[joined ? "lineTo" : "moveTo"](across(n), down(share(axis, value)));
        joined = true;
      });
      pen.stroke();
    }
  };

  const describe = (inside, all) => {
    const names = axes.map(title).join("; ");
    canvas.setAttribute("aria-label",
      `Parallel coordinates of ${R.count(all, "point")}, ${R.show(inside)} in every range. Axes: ${names}`);
    const part = inside > MOST_LINES ? ` ${R.show(MOST_LINES)} of them are drawn.` : "";
    note.textContent = `${R.show(inside)} of ${R.count(all, "legal point")} in every range.${part}`;
  };

  const brush = (axis, range) => {
    const brushes = { ...R.state.brushes };
    if (range) brushes[axis.name] = range;
    else delete brushes[axis.name];
    R.set({ brushes });
  };

  const makeRanges = () => {
    ranges.replaceChildren(
      ...axes.map((axis) => {
        const box = (which, n) => {
          const input = R.h("input", { type: "number", step: "any", placeholder: R.show(n ? axis.most : axis.least) });
          input.setAttribute("aria-label", `${which} ${title(axis)}`);
          input.addEventListener("change", () => {
            const range = [...(R.state.brushes[axis.name] ?? [-Infinity, Infinity])];
            range[n] = input.value === "" ? (n ? Infinity : -Infinity) : Number(input.value);
            brush(axis, range.every((v) => !Number.isFinite(v)) ? null : range);
          });
          return input;
        };
        axis.inputs = [box("Least", 0), box("Most", 1)];
        return R.h("div", { class: "range", role: "group", "aria-label": title(axis) },
          R.h("span", {}, title(axis)), axis.inputs);
      }),
    );
    place();
    fill();
  };

  // Each group of numbers under its axis.
  const place = () => {
    const width = (canvas.clientWidth - 2 * PAD.side) / Math.max(1, axes.length - 1);
    ranges.style.setProperty("--count", axes.length);
    ranges.style.paddingInline = `${Math.max(0, PAD.side - width / 2)}px`;
  };

  const fill = () => {
    for (const axis of axes) {
      const range = R.state.brushes[axis.name];
      axis.inputs.forEach((input, n) => {
        if (document.activeElement === input) return;
        const value = range?.[n];
        input.value = Number.isFinite(value) ? String(Number(value.toPrecision(5))) : "";
      });
    }
  };

  const listen = () => {
    const find = (event) => {
      const box = canvas.getBoundingClientRect();
      const x = event.clientX - box.left;
      const n = axes.findIndex((_, k) => Math.abs(across(k) - x) < 14);
      return { axis: axes[n], part: partAt(event.clientY - box.top) };
    };
    canvas.addEventListener("pointerdown", (event) => {
      const { axis, part } = find(event);
      if (!axis) return;
      canvas.setPointerCapture(event.pointerId);
      drag = { axis, from: part, range: [valueAt(axis, part), valueAt(axis, part)] };
    });
    canvas.addEventListener("pointermove", (event) => {
      canvas.style.cursor = find(event).axis ? "ns-resize" : "";
      if (!drag) return;
      const part = partAt(event.clientY - canvas.getBoundingClientRect().top);
      drag.range = [Math.min(drag.from, part), Math.max(drag.from, part)].map((p) => valueAt(drag.axis, p));
      draw();
    });
    canvas.addEventListener("pointerup", () => {
      if (!drag) return;
      const { axis, range } = drag;
      drag = null;
      const long = Math.abs(share(axis, range[1]) - share(axis, range[0])) > 0.01;
      brush(axis, long ? range : null);
    });
  };

  R.startParallel = () => {
    const host = document.getElementById("parallel");
    canvas = R.h("canvas", { role: "img", id: "parallel-lines" });
    ranges = R.h("div", { class: "ranges" });
    note = R.h("p", { class: "muted", role: "status" });
    stage = R.h("div", { class: "stage" }, canvas, ranges);
    const clear = R.h("button", { type: "button", onclick: () => R.set({ brushes: {} }) }, "Clear all ranges");
    const table = R.alternative(() => "Points in every range", () => ({
      columns: ["point", ...axes.map((axis) => ({ text: title(axis), number: true }))],
      rows: R.visible().map((p) => [R.pointButton(p), ...axes.map((axis) => R.show(R.axisValue(p, axis.name)))]),
    }));
    host.append(
      R.h("p", { class: "muted" }, "Drag along an axis, or write numbers below it: what lies outside leaves every figure and the table. A click on the axis takes its range away."),
      R.h("div", { class: "scroll stage-frame", tabindex: "0", role: "region", "aria-label": "Parallel coordinates" }, stage),
      R.h("div", { class: "buttons" }, clear), note, table.element,
    );
    const redraw = R.lazy(stage, () => {
      draw();
      table.update();
    });
    const update = (changed) => {
      if (changed.has("data") || changed.has("workload")) {
        axes = findAxes();
        makeRanges();
      }
      if (["workload", "text", "brushes", "selected", "theme", "data"].some((n) => changed.has(n))) {
        fill();
        redraw();
      }
    };
    R.onChange(update);
    listen();
    new ResizeObserver(() => {
      place();
      redraw();
    }).observe(stage);
    update(new Set(["data"]));
  };
})(Report);
