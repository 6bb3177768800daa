"use strict";
// The campaigns: what ended, what is under way, and newer data while the page is live.
((R) => {
  const EVERY_MS = 2000;

  R.startCampaigns = (live) => {
    const host = document.getElementById("campaigns");
    const place = R.h("div", {});
    const word = R.h("p", { class: "muted", id: "live", role: "status" });
    host.append(word, place);
    const update = () => place.replaceChildren(...R.data.campaigns.filter((c) => c.shown).map(card));
    R.onChange((changed) => changed.has("data") && update());
    update();
    if (live) poll(word);
    else word.textContent = `Made ${R.data.made_at.replace("T", " ").replace("+00:00", " UTC")} by ${R.data.release}.`;
  };

  const card = (c) => {
    const counts = c.counts ?? {};
    const all = Object.values(counts).reduce((a, b) => a + b, 0);
    const left = (counts.waiting ?? 0) + (counts.running ?? 0);
    const parts = Object.entries(counts).map(([status, n]) => `${R.show(n)} ${status}`);
    const bar = R.h("progress", { "aria-label": `Progress of ${c.kind} ${c.name}` });
    bar.max = Math.max(1, all);
    bar.value = all - left;
    const going = c.active ?? [];
    const eta = left && c.left_s !== undefined ? `, about ${duration(c.left_s)} left` : "";
    const state = left ? (going.length ? `under way${eta}` : "interrupted") : "ended";
    return R.h("div", { class: "card campaign" },
      R.h("p", {}, R.h("strong", {}, `${c.kind} ${c.name}`), ` · campaign ${c.number} · commit ${c.commit} · ${state}`),
      left ? bar : null,
      R.h("p", {}, `${R.count(all, "run")}: ${parts.join(", ")}.`),
      going.length
        ? R.table(`Under way in ${c.kind} ${c.name}`, ["run", "worker", "since"],
            going.map((a) => [a.title, a.worker ?? "–", (a.since ?? "").slice(11, 19)]))
        : null,
      c.files ? R.h("p", {}, "Files: ", c.files.flatMap((f, n) => [n ? ", " : "", R.h("a", { href: f.href }, f.label)])) : null);
  };

  const duration = (seconds) => {
    if (seconds < 90) return `${Math.ceil(seconds)} s`;
    if (seconds < 5400) return `${Math.ceil(seconds / 60)} min`;
    return `${R.show(Math.ceil(seconds / 360) / 10)} h`;
  };

  const poll = (word) => {
    let tag = "";
    const again = async () => {
      try {
        const answer = await fetch("data.json", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
        if (answer.status === 200) {
          tag = answer.headers.get("ETag") ?? "";
          const data = await answer.json();
          R.load(data);
          R.refresh(["data"]);
        } else if (answer.status !== 304) {
          throw new Error((await answer.text()) || `status ${answer.status}`);
        }
        word.textContent = `Live: as of ${new Date().toLocaleTimeString("en-GB")}. Figures change as runs end.`;
      } catch (error) {
        word.textContent = `Not live: ${error.message}. Asked again every ${EVERY_MS / 1000} seconds.`;
      }
      setTimeout(again, EVERY_MS);
    };
    again();
  };
})(Report);
