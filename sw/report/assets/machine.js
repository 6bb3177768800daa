"use strict";
// Area by block, roofline, and what the engines did.
((R) => {
  const MOST_BARS = 24;
  const MOST_ROOFS = 6;
  const MOST_DOTS = 800; // every n-th of more

  R.startMachine = () => {
    const host = document.querySelector("#machine .pair");
    host.append(sunburst(), roofline(), engines());
  };

  const watch = (figure, names) => {
    R.onChange((changed) => {
      if (names.some((name) => changed.has(name))) figure.update();
    });
    figure.update();
    return figure.element;
  };

  // The selected point, or else the one that the advice would call the fastest.
  const shownPoint = (has) => {
    const selected = R.byId.get(R.state.selected);
    if (selected && has(selected)) return selected;
    return R.visible().find(has) ?? null;
  };

  const sunburst = () => {
    const point = () => shownPoint((p) => p.blocks);
    const parent = (path) => (path.includes(".") ? path.slice(0, path.lastIndexOf(".")) : "");
    const known = (blocks, path) => {
      let up = parent(path);
      while (up && !(up in blocks)) up = parent(up);
      return up;
    };
    return watch(
      R.figure({
        id: "blocks",
        title: () => `Area by block: ${point()?.label ?? ""}`,
        describe: () => {
          const { blocks } = point();
          const top = Object.entries(blocks).filter(([path]) => path && !path.includes("."));
          top.sort((a, b) => b[1] - a[1]);
          return `Area by block of ${point().label}: ${top.slice(0, 6).map(([p, v]) => `${p} ${R.show(v / 1000)} kGE`).join(", ")}`;
        },
        empty: "No visible point was synthesized: a space with a synth key has area by block.",
        draw: (c) => {
          const found = point();
          if (!found) return null;
          const paths = Object.keys(found.blocks).filter((path) => path);
          const tops = paths.filter((path) => !known(found.blocks, path)).sort((a, b) => found.blocks[b] - found.blocks[a]);
          const all = found.blocks[""] ?? tops.reduce((sum, path) => sum + found.blocks[path], 0);
          const colour = (path) => {
            const top = tops.findIndex((t) => path === t || path.startsWith(`${t}.`));
            return top < 7 ? c.series[top] : c.series[7];
          };
          return {
            data: [{
              type: "sunburst",
              branchvalues: "total",
              ids: ["", ...paths],
              labels: ["all", ...paths.map((p) => R.plain(p.slice(p.lastIndexOf(".") + 1)))],
              parents: ["", ...paths.map((p) => known(found.blocks, p))].map((p, n) => (n ? p || "all" : "")),
              values: [all, ...paths.map((p) => found.blocks[p])].map((v) => v / 1000),
              marker: { colors: [c.panel, ...paths.map(colour)], line: { color: c.page, width: 1 } },
              insidetextfont: { color: "#10151b" },
              maxdepth: 3,
              hovertemplate: "<b>%{id}</b><br>%{value:,.1f} kGE, %{percentRoot:.1%} of all<extra></extra>",
              sort: true,
            }].map((t) => ({ ...t, ids: t.ids.map((id) => id || "all") })),
            layout: { margin: { l: 5, r: 5, t: 5, b: 5 } },
          };
        },
        table: () => {
          const { blocks } = point();
          const rows = Object.entries(blocks).sort((a, b) => b[1] - a[1]);
          return {
            columns: ["block", { text: "kGE", number: true }],
            rows: rows.map(([path, value]) => [path || "all", R.show(value / 1000)]),
          };
        },
      }),
      ["selected", "text", "brushes", "theme", "data"],
    );
  };

  const roofline = () => {
    const rows = () => {
      const mean = R.state.workload === R.mean;
      const found = [];
      for (const point of R.visible()) {
        for (const m of point.measurements) {
          if (!mean && m.workload !== R.data.workloads[R.state.workload]) continue;
          const bytes = (m.read_bytes ?? 0) + (m.write_bytes ?? 0);
          if (m.cycles && m.macs && bytes) {
            found.push({ point, m, x: m.macs / bytes, y: m.macs / m.cycles });
          }
        }
      }
      return found;
    };
    const roofs = (found) => {
      const shown = new Map();
      const selected = R.byId.get(R.state.selected);
      const first = selected?.pes ? [selected] : [];
      for (const p of [...first, ...found.map((r) => r.point).sort((a, b) => b.pes - a.pes)]) {
        const key = `${p.pes} ${p.bus_bytes}`;
        if (!shown.has(key)) shown.set(key, { pes: p.pes, bus: p.bus_bytes });
      }
      const all = [...shown.values()];
      if (all.length <= MOST_ROOFS) return all;
      // Roofs of all heights rather than the highest ones.
      return Array.from({ length: MOST_ROOFS }, (_, n) => all[Math.round((n * (all.length - 1)) / (MOST_ROOFS - 1))]);
    };
    let drawn = [];
    return watch(
      R.figure({
        id: "roofline",
        title: () => {
          const count = rows().length;
          const part = count > MOST_DOTS ? `, ${MOST_DOTS} of ${R.show(count)} measurements` : "";
          return `Roofline: MACs a cycle against MACs a byte of DRAM${part}`;
        },
        describe: () => `${R.count(rows().length, "measurement")} under ${R.count(roofs(rows()).length, "roof")} of array and bus`,
        empty: "No visible point has cycles, MACs and bytes of a workload.",
        click: (event) => {
          const row = drawn[event.curveNumber]?.[event.pointNumber];
          if (row) R.openPoint(row.point.id);
        },
        draw: (c) => {
          const all = rows();
          const step = Math.max(1, all.length / MOST_DOTS);
          const found = all.filter((_, n) => Math.floor(n / step) !== Math.floor((n - 1) / step));
          if (!found.length) return null;
          const xs = found.map((r) => r.x);
          const low = Math.min(...xs) / 3;
          const high = Math.max(...xs) * 3;
          const workloads = [...new Set(found.map((r) => r.m.workload))];
          drawn = workloads.map((name) => found.filter((r) => r.m.workload === name));
          const symbols = ["circle", "diamond", "square", "triangle-up", "cross", "x", "star", "pentagon"];
          const dots = drawn.map((members, n) => ({
            type: "scatter",
            mode: "markers",
            name: R.plain(workloads[n]),
            x: members.map((r) => r.x),
            y: members.map((r) => r.y),
            marker: { size: 9, symbol: symbols[n % 8], color: c.series[n % 8], line: { width: 1, color: c.page } },
            hovertext: members.map((r) => `<b>${R.plain(r.point.label)}</b><br>${R.plain(r.m.workload)}<br>${R.show(r.y)} of ${R.show(r.point.pes)} MACs a cycle<br>${R.show(r.x)} MACs a byte`),
            hoverinfo: "text",
          }));
          const lines = roofs(found).map(({ pes, bus }) => {
            const corner = pes / bus;
            const x = [Math.min(low, corner / 3), corner, Math.max(high, corner * 3)];
            return {
              type: "scatter",
              mode: "lines",
              x,
              y: x.map((v) => Math.min(pes, v * bus)),
              line: { color: c.muted, width: 1.3, dash: "dot" },
              hovertext: `roof: ${R.show(pes)} PEs, ${bus} bytes a cycle`,
              hoverinfo: "text",
              showlegend: false,
            };
          });
          return {
            data: [...dots, ...lines],
            layout: {
              xaxis: { type: "log", title: { text: "MACs a byte of DRAM" }, dtick: "D2" },
              yaxis: { type: "log", title: { text: "MACs a cycle" }, dtick: "D2" },
            },
          };
        },
        table: () => ({
          columns: ["point", "workload", { text: "MACs a byte", number: true }, { text: "MACs a cycle", number: true }, { text: "roof", number: true }],
          rows: rows().map((r) => [R.pointButton(r.point), r.m.workload, R.show(r.x), R.show(r.y),
            R.show(Math.min(r.point.pes, r.x * r.point.bus_bytes))]),
        }),
      }),
      ["workload", "selected", "text", "brushes", "theme", "data"],
    );
  };

  const engines = () => {
    const pick = { engine: Math.max(0, R.data.engines.indexOf("matrix")), workload: "" };
    // Of the mean there are no counters: the first workload then, which the title names.
    const workload = () => (R.state.workload === R.mean ? 0 : R.state.workload);
    const rows = () => {
      const found = [];
      for (const point of R.visible()) {
        const counters = R.measured(point, workload())?.counters?.[pick.engine];
        const total = counters?.reduce((a, b) => a + b, 0);
        if (total) found.push({ point, shares: counters.map((v) => (100 * v) / total) });
      }
      const busy = R.data.states.indexOf("busy");
      const rank = (row) => (row.point.id === R.state.selected ? 1000 : row.shares[busy] ?? 0);
      return found.sort((a, b) => rank(b) - rank(a));
    };
    const figure = R.figure({
      id: "engines",
      wide: true,
      title: () => {
        const all = rows().length;
        const some = all > MOST_BARS ? `, the ${MOST_BARS} busiest of ${R.show(all)}` : "";
        return `What engine ${R.data.engines[pick.engine] ?? ""} did in ${R.data.workloads[workload()]}${some}`;
      },
      controls: R.data.engines.length
        ? [R.select("engine", R.data.engines.map((name, n) => [String(n), name]), String(pick.engine), (n) => {
            pick.engine = Number(n);
            figure.update();
          })]
        : [],
      describe: () => {
        const [first] = rows();
        return `Shares of cycles by configuration; ${first.point.label}: ${R.data.states.map((s, n) => `${s} ${R.show(first.shares[n])}%`).join(", ")}`;
      },
      empty: "No visible point has counters of this workload: the RTL counts them, the compiler's model does not.",
      draw: (c) => {
        const found = rows().slice(0, MOST_BARS).reverse();
        if (!found.length) return null;
        const colours = { busy: c.series[2], semaphore: c.series[0], memory: c.series[5], bank: c.series[1], pipeline: c.series[3], idle: c.dim };
        return {
          data: R.data.states.map((state, n) => ({
            type: "bar",
            orientation: "h",
            name: state,
            y: found.map((r) => r.point.id),
            x: found.map((r) => r.shares[n]),
            marker: { color: colours[state] ?? c.series[n % 8], line: { color: c.page, width: 1 } },
            hovertext: found.map((r) => `<b>${R.plain(r.point.label)}</b><br>${state}: ${R.show(r.shares[n])}% of cycles`),
            hoverinfo: "text",
          })),
          layout: {
            barmode: "stack",
            height: 130 + 24 * found.length,
            margin: { l: 70, r: 20, t: 40, b: 55 },
            legend: { orientation: "h", yref: "container", y: 1, yanchor: "top", x: 0, traceorder: "normal" },
            xaxis: { title: { text: "share of cycles, %" }, range: [0, 100] },
            yaxis: { tickvals: found.map((r) => r.point.id), ticktext: found.map((r) => R.plain(r.point.label)) },
          },
        };
      },
      click: (event) => R.openPoint(event.y),
      table: () => ({
        columns: ["point", ...R.data.states.map((text) => ({ text: `${text}, %`, number: true }))],
        rows: rows().map((r) => [R.pointButton(r.point), ...r.shares.map(R.show)]),
      }),
    });
    return watch(figure, ["workload", "selected", "text", "brushes", "theme", "data"]);
  };
})(Report);
