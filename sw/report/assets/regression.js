"use strict";
// Failures, cycles over commits, and the verdict of each run.
((R) => {
  const MOST_LINES = 40;
  const MOST_FAILURES = 200;
  const CHANGED = 0.5; // percent of cycles

  const name = (h) => [h.workload, h.config, h.device, `seed ${h.seed}`, h.memory].filter(Boolean).join(" · ");

  R.startRegression = () => {
    failures();
    history();
    verdicts();
  };

  const failures = () => {
    const host = document.getElementById("failures");
    const place = R.h("div", {});
    host.append(place);
    const card = (f) =>
      R.h("details", { class: f.quarantine ? "failure quarantined" : "failure" },
        R.h("summary", {},
          R.h("strong", {}, f.quarantine ? `${f.status} (quarantined)` : f.status), ` ${f.title}`,
          f.mismatch?.layer ? ` · layer ${f.mismatch.layer}` : "",
          f.mismatch?.instruction !== undefined ? ` · instruction ${f.mismatch.instruction}` : ""),
        f.quarantine ? R.h("p", {}, `Quarantined: ${f.quarantine}`) : null,
        R.trouble(f),
        f.command ? R.command(f.command) : null);
    const update = () => {
      const found = R.data.failures;
      const aside = found.filter((f) => f.quarantine).length;
      const text = found.length
        ? `${R.count(found.length, "run")} not good, ${R.show(aside)} of them quarantined.`
        : "Every run that ended is good.";
      const more = found.length > MOST_FAILURES ? `The first ${MOST_FAILURES} are listed.` : "";
      const sorted = [...found].sort((a, b) => Boolean(a.quarantine) - Boolean(b.quarantine));
      place.replaceChildren(R.h("p", { class: found.length > aside ? "bad" : null }, text, " ", more),
        ...sorted.slice(0, MOST_FAILURES).map(card));
    };
    R.onChange((changed) => changed.has("data") && update());
    update();
  };

  // Percent of cycles that the last run that passed took more than the one before it.
  const change = (h) => {
    const cycles = h.entries.map((e) => e.cycles).filter(Boolean);
    if (cycles.length < 2) return null;
    const [before, last] = cycles.slice(-2);
    return (100 * (last - before)) / before;
  };

  const history = () => {
    const pick = { config: "" };
    const configs = () => [...new Set(R.data.history.filter((h) => h.device === "rtl").map((h) => h.config))];
    pick.config = configs()[0] ?? "";
    const rows = () => {
      const found = R.data.history.filter((h) => h.config === pick.config && h.entries.some((e) => e.cycles));
      return found.sort((a, b) => Math.abs(change(b) ?? 0) - Math.abs(change(a) ?? 0));
    };
    const figure = R.figure({
      id: "history-lines",
      wide: true,
      controls: [R.select("configuration", configs().map((c) => [c, c]), pick.config, (config) => {
        pick.config = config;
        figure.update();
      })],
      title: () => `Cycles over commits on ${pick.config}, first = 100%`,
      describe: () => `${R.count(rows().length, "run")}; the largest change: ${rows()[0] ? `${rows()[0].workload} ${percent(change(rows()[0]))}` : "none"}`,
      empty: "No run on RTL has passed yet.",
      draw: (c) => {
        const found = rows().slice(0, MOST_LINES);
        if (!found.length) return null;
        const campaigns = [...new Set(found.flatMap((h) => h.entries.map((e) => e.campaign)))].sort((a, b) => a - b);
        const commit = new Map(R.data.campaigns.map((x) => [x.number, x.commit]));
        return {
          data: found.map((h, n) => {
            const entries = h.entries.filter((e) => e.cycles);
            return {
              type: "scatter",
              mode: "lines+markers",
              name: R.plain(h.seed ? `${h.workload} seed ${h.seed}` : h.workload),
              x: entries.map((e) => campaigns.indexOf(e.campaign)),
              y: entries.map((e) => (100 * e.cycles) / entries[0].cycles),
              line: { color: c.series[n % 8], dash: ["solid", "dash", "dot", "dashdot"][Math.floor(n / 8) % 4] },
              hovertext: entries.map((e) => `<b>${R.plain(name(h))}</b><br>${R.show(e.cycles)} cycles<br>${R.plain(e.commit)}, campaign ${e.campaign}`),
              hoverinfo: "text",
            };
          }),
          layout: {
            xaxis: { title: { text: "commit" }, tickvals: campaigns.map((_, n) => n),
              ticktext: campaigns.map((x) => R.plain((commit.get(x) ?? "").slice(0, 8))), range: [-0.5, campaigns.length - 0.5] },
            yaxis: { title: { text: "cycles, % of the first run" } },
            showlegend: found.length <= 12,
          },
        };
      },
      table: () => ({
        columns: ["run", "cycles from the first to the last"],
        rows: rows().map((h) => [name(h), h.entries.map((e) => `${R.show(e.cycles)} (${e.commit})`).join(", ")]),
      }),
    });
    document.getElementById("history").append(figure.element);
    R.onChange((changed) => ["data", "theme"].some((n) => changed.has(n)) && figure.update());
    figure.update();
  };

  const percent = (value) => {
    if (value === null) return "–";
    if (Math.abs(value) < 0.005) return "0%";
    return `${value < 0 ? "−" : "+"}${R.show(Math.floor(Math.abs(value) * 100 + 0.5) / 100)}%`;
  };

  const verdict = (h) => {
    const last = h.entries.at(-1);
    const off = change(h);
    if (last.status !== "passed") return last.status;
    if (off !== null && off > CHANGED) return "slower";
    if (off !== null && off < -CHANGED) return "faster";
    return "passed";
  };

  const verdicts = () => {
    const host = document.getElementById("verdicts");
    const place = R.h("div", {});
    const text = R.h("input", { type: "search" });
    const all = R.h("input", { type: "checkbox" });
    const update = () => {
      const words = text.value.toLowerCase().split(/\s+/);
      const found = R.data.history
        .map((h) => ({ h, verdict: verdict(h) }))
        .filter(({ h, verdict: v }) => words.every((w) => `${name(h)} ${v}`.toLowerCase().includes(w)))
        .filter(({ verdict: v }) => !all.checked || v !== "passed");
      const rank = (row) => ["passed", "faster", "slower"].indexOf(row.verdict);
      found.sort((a, b) => (rank(a) < 0 ? -9 : -rank(a)) - (rank(b) < 0 ? -9 : -rank(b)));
      const rows = found.slice(0, 500).map(({ h, verdict: v }) => {
        const last = h.entries.at(-1);
        return [h.workload, h.config, h.device, String(h.seed), h.memory ?? "", v, R.show(last.cycles ?? null),
          percent(change(h)), `${last.commit} (campaign ${last.campaign})`];
      });
      const more = found.length > rows.length ? ` The first ${rows.length} are listed.` : "";
      place.replaceChildren(
        R.h("p", { class: "muted", role: "status" }, `${R.count(found.length, "run")}.${more} Slower and faster: more than ${CHANGED}% of cycles against the run before.`),
        R.table("Verdicts", ["workload", "configuration", "device", "seed", "memory", "verdict",
          { text: "cycles", number: true }, { text: "change", number: true }, "commit"], rows));
    };
    text.addEventListener("input", update);
    all.addEventListener("change", update);
    host.append(
      R.h("div", { class: "controls" },
        R.h("label", { class: "field" }, R.h("span", {}, "filter"), text),
        R.h("label", { class: "check" }, all, " only what changed or is not good")),
      place);
    R.onChange((changed) => changed.has("data") && update());
    update();
  };
})(Report);
