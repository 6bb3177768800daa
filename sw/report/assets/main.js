"use strict";
// Puts the page together.
((R) => {
  R.load(systola.data("report"));
  R.state.workload = R.mean;

  const controls = () => {
    const host = document.getElementById("controls");
    const text = R.h("input", { type: "search", id: "filter", placeholder: "rows=8 failed …" });
    text.addEventListener("input", () => R.set({ text: text.value }));
    const names = R.data.workloads.map((name, n) => [String(n), name]);
    const pick = R.select("workload", names, String(R.state.workload), (n) => R.set({ workload: Number(n) }));
    pick.querySelector("select").id = "workload";
    const count = R.h("output", {});
    const clear = R.h("button", { type: "button" }, "Clear filters");
    clear.addEventListener("click", () => {
      text.value = "";
      R.set({ text: "", brushes: {} });
    });
    const update = () => {
      count.textContent = `${R.show(R.filtered().length)} of ${R.count(R.data.points.length, "point")}`;
      clear.disabled = !R.state.text && !R.isBrushed();
    };
    host.append(pick, R.h("label", { class: "field" }, R.h("span", {}, "filter"), text), clear, count);
    R.onChange(update);
    update();
  };

  const parts = [];
  const part = (id, start) => {
    document.getElementById(id).hidden = false;
    start();
    parts.push(id);
  };
  const sweep = () => {
    controls();
    R.startAdvice();
    R.startFronts();
    R.startParallel();
    R.startPoints();
    R.startMachine();
  };
  const started = new Set();
  // A live page may get its first points later.
  const begin = () => {
    if (R.data.points.length && !started.has("sweep")) {
      started.add("sweep");
      R.state.workload = R.mean;
      part("sweep", sweep);
    }
    if ((R.data.history.length || R.data.failures.length) && !started.has("regression")) {
      started.add("regression");
      part("regression", R.startRegression);
    }
    const links = [...document.querySelectorAll("main > section:not([hidden])")].flatMap((section) => [
      section,
      ...section.querySelectorAll(":scope > section"),
    ]);
    document.getElementById("parts").replaceChildren(
      ...links.map((s) => R.h("li", {}, R.h("a", { href: `#${s.id}` }, s.querySelector("h2, h3").textContent))),
    );
  };

  R.startDialog();
  R.startCampaigns(systola.data("live"));
  begin();
  R.onChange((changed) => changed.has("data") && begin());
  document.body.dataset.ready = "true";
})(Report);
