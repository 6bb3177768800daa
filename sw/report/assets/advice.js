"use strict";
// The three answers of sw/report/advice.py, in the same words, while thresholds change.
((R) => {
  const QUESTIONS = [
    { name: "fastest", limit: "at_most" },
    { name: "smallest", limit: "at_least" },
    { name: "best per joule", limit: "joule" },
  ];

  // thresholds: {at_most, at_least, joule}, null where there is none.
  R.advise = (workload, thresholds) => {
    const size = R.objectives.get(R.data.thresholds.size);
    const speed = R.objectives.get(R.data.thresholds.speed);
    const joule = R.objectives.get("efficiency");
    const legal = R.data.points.filter((point) => !point.reason);
    return [
      answer(legal, workload, "fastest", speed, size, size, thresholds.at_most),
      answer(legal, workload, "smallest", size, speed, speed, thresholds.at_least),
      answer(legal, workload, "best per joule", joule, speed, speed, thresholds.joule),
    ];
  };

  const answer = (legal, workload, question, goal, second, limit, threshold) => {
    const value = (point, objective) => R.value(point, objective.key, workload);
    const figure = (point, objective) => R.figureText(point, objective.key, workload);
    const head = question[0].toUpperCase() + question.slice(1);
    const known = legal.filter((point) => value(point, goal) !== null);
    if (!known.length) {
      return { question, point: "", text: `${head}: no point has a figure of ${goal.label}.` };
    }
    let condition = "";
    let rivals = known;
    if (threshold !== null && threshold !== undefined) {
      const sign = limit.up ? "at least" : "at most";
      condition = ` with ${sign} ${R.show(threshold)} ${limit.unit}`;
      rivals = known.filter((point) => reaches(value(point, limit), threshold, limit));
    }
    if (!rivals.length) {
      const near = best(known.filter((p) => value(p, limit) !== null), limit, goal, value);
      const hint = near ? `; the nearest is ${near.label}, ${figure(near, limit)}` : "";
      return { question, point: "", text: `${head}: no point${condition}${hint}.` };
    }
    const first = best(rivals, goal, second, value);
    let text = `${head}${condition}: ${first.label}, ${figure(first, goal)}`;
    if (value(first, second) !== null) text += `, ${figure(first, second)}`;
    text += ` (${R.show(rivals.length)} of ${R.show(known.length)} points qualify).`;
    return { question, point: first.label, id: first.id, text };
  };

  const reaches = (value, threshold, limit) =>
    value !== null && (limit.up ? value >= threshold : value <= threshold);

  const best = (points, goal, second, value) => {
    let found = null;
    for (const point of points) if (!found || ahead(point, found)) found = point;
    return found;

    function ahead(one, other) {
      const [a, b] = [value(one, goal), value(other, goal)];
      if (a !== b) return goal.up ? a > b : a < b;
      const [c, d] = [value(one, second), value(other, second)];
      if (c === null || d === null) return c !== null && d === null;
      return second.up ? c > d : c < d;
    }
  };

  // Controls: the user's thresholds last, whatever the data do; without any the defaults hold.
  const chosen = {};

  const threshold = (limit) => {
    if (limit in chosen) return chosen[limit];
    const defaults = R.data.thresholds[limit];
    return defaults ? defaults[R.state.workload] : null;
  };

  R.startAdvice = () => {
    const host = document.getElementById("advice");
    const rows = QUESTIONS.map((question) => row(question));
    host.append(R.h("div", { class: "answers" }, rows.map((r) => r.element)));
    const update = () => {
      const limits = Object.fromEntries(QUESTIONS.map(({ limit }) => [limit, threshold(limit)]));
      const answers = R.advise(R.state.workload, limits);
      rows.forEach((r, n) => r.update(answers[n]));
    };
    R.onChange((changed) => {
      if (["workload", "data", "thresholds"].some((name) => changed.has(name))) update();
    });
    update();
  };

  const row = ({ name, limit }) => {
    const key = () => (limit === "at_most" ? R.data.thresholds.size : R.data.thresholds.speed);
    const range = R.h("input", { type: "range", min: "0", max: "1000", step: "1" });
    const number = R.h("input", { type: "number", min: "0", step: "any" });
    const caption = R.h("label", {});
    const text = R.h("p", { class: "answer" });
    const open = R.h("button", { type: "button" }, "Show this point");
    let id = "";
    // The slider goes through the values that points have: each step changes an answer.
    let stops = [];
    const pick = (value) => {
      chosen[limit] = value;
      R.set({ thresholds: limit });
    };
    range.addEventListener("input", () => pick(stops[Number(range.value)] ?? null));
    number.addEventListener("input", () => {
      pick(number.value === "" ? null : Number(number.value));
    });
    open.addEventListener("click", () => R.openPoint(id));
    number.id = `limit-${limit}`;
    caption.htmlFor = number.id;

    const update = (answer) => {
      const objective = R.objectives.get(key());
      const sign = objective.up ? "At least" : "At most";
      caption.textContent = `${sign}, in ${objective.unit}`;
      range.setAttribute("aria-label", `${name}: ${sign.toLowerCase()}, in ${objective.unit}`);
      const values = R.data.points.map((p) => (p.reason ? null : R.value(p, objective.key)));
      stops = [...new Set(values.filter((v) => v !== null))].sort((a, b) => a - b);
      const value = threshold(limit);
      range.max = String(Math.max(0, stops.length - 1));
      range.disabled = !stops.length;
      range.value = String(nearest(stops, value));
      range.setAttribute("aria-valuetext", `${R.show(value)} ${objective.unit}`);
      if (document.activeElement !== number) number.value = value === null ? "" : String(value);
      if (text.textContent !== answer.text) text.textContent = answer.text;
      id = answer.id ?? "";
      open.hidden = !id;
      open.setAttribute("aria-label", `Show the point of this answer: ${answer.point}`);
    };
    const element = R.h(
      "div",
      { class: "card" },
      R.h("h4", {}, name[0].toUpperCase() + name.slice(1)),
      R.h("div", { class: "limit" }, caption, number, range),
      text,
      open,
    );
    text.setAttribute("aria-live", "polite");
    return { element, update };
  };

  const nearest = (stops, value) => {
    if (value === null) return 0;
    let found = 0;
    stops.forEach((stop, n) => {
      if (Math.abs(stop - value) < Math.abs(stops[found] - value)) found = n;
    });
    return found;
  };
})(Report);
