// Learning curves: means over seeds with bands, or every run a line; hover for the values of all seeds. The data stand
// once in the page, as JSON in #curves, one item per experiment; its chart is drawn into each of its figures, of which
// there is one per language.
"use strict";

const showCurves = ({ arms, runs, steps, tokens, margin }, figures, signal) => {
  const hidden = new Set();
  const checked = [...(figures[0]?.querySelectorAll("input:checked") ?? [])];
  const chosen = Object.fromEntries(checked.map(({ dataset, value }) => [dataset.choice, value]));
  let emphasised = null;

  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = 380;
  const PAPER = 680; // what a sheet of A4 leaves, in CSS pixels
  const MOST_SEEDS = 6; // in the box of values
  const EDGE = { top: 28, right: 14, bottom: 40, left: 54 };

  // ---- from data to lines -------------------------------------------------------------------------------------

  const atStep = (run) => {
    run.index ??= new Map(steps[run.steps].map((step, i) => [step, i]));
    return run.index;
  };
  const losses = (run) => (chosen.split === "training" ? run.train : run.loss);

  const controlOf = (run) =>
    runs.find((other) => other.arm === arms[run.arm].control && other.seed === run.seed);

  const MEASURES = {
    loss: (run, i) => losses(run)[i],
    perplexity: (run, i) => exponential(losses(run)[i]),
    bits: (run, i) => {
      const bytes = arms[run.arm].bytes_per_token;
      return bytes && losses(run)[i] !== null ? losses(run)[i] / Math.LN2 / bytes : null;
    },
    ratio: (run, i) => {
      run.control ??= controlOf(run) ?? null;
      const there = run.control && atStep(run.control).get(steps[run.steps][i]);
      if (there === null || there === undefined) return null;
      const [ours, theirs] = [losses(run)[i], losses(run.control)[there]];
      return ours === null || theirs === null ? null : exponential(ours - theirs);
    },
  };
  const exponential = (value) => (value === null ? null : Math.exp(value));

  const AGAINST = {
    steps: (run, i) => steps[run.steps][i],
    tokens: (run, i) => tokens[run.tokens][i],
    time: (run, i) => run.seconds[i],
  };

  const lines = () => {
    const whole = runs
      .filter((run) => !hidden.has(run.arm))
      .map((run) => ({
        run,
        points: steps[run.steps]
          .map((_, i) => [AGAINST[chosen.against](run, i), MEASURES[chosen.measure](run, i)])
          .filter(([x, y]) => x !== null && Number.isFinite(x) && y !== null && Number.isFinite(y)),
      }));
    const last = Math.max(...whole.map(({ points }) => points.at(-1)?.[0] ?? 0));
    const start = chosen.span === "end" ? last / 2 : 0;
    return whole
      .map(({ run, points }) => ({ run, points: points.filter(([x]) => x >= start) }))
      .filter(({ points }) => points.length);
  };

  // ---- from lines to means ------------------------------------------------------------------------------------

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const arithmetic = (values) => sum(values) / values.length;
  /** Ratios and perplexities have geometric means, as in the tables. */
  const meanOf = (values) =>
    ["perplexity", "ratio"].includes(chosen.measure) ? Math.exp(arithmetic(values.map(Math.log))) : arithmetic(values);

  /** Each arm at the places that all its runs have: a run that ended early must not move the mean. */
  const means = (drawn) => {
    return [...grouped(drawn)].map(([arm, members]) => {
      const shortest = Math.min(...members.map(({ points }) => points.length));
      const places = [...Array(shortest).keys()].filter(
        (i) => chosen.against === "time" || members.every(({ points }) => points[i][0] === members[0].points[i][0]),
      );
      const rows = places.map((i) => {
        const values = members.map(({ points }) => points[i][1]);
        const x = arithmetic(members.map(({ points }) => points[i][0]));
        return { x, mean: meanOf(values), low: Math.min(...values), high: Math.max(...values) };
      });
      return { arm, rows };
    });
  };

  const grouped = (drawn) => {
    const found = new Map();
    for (const each of drawn) found.set(each.run.arm, [...(found.get(each.run.arm) ?? []), each]);
    return found;
  };

  // ---- scales -------------------------------------------------------------------------------------------------

  /** Round numbers inside [low, high], about `count` of them. */
  const ticks = (low, high, count) => {
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
    return found;
  };

  /** Where most of the curves are: the first steps of a run are steep and would flatten all that follows. */
  const extent = (drawn) => {
    const values = drawn.flatMap(({ points }) => points.map(([, y]) => y)).sort((a, b) => a - b);
    const ends = drawn.map(({ points }) => points.at(-1)[1]);
    const low = values[0];
    const middle = values[Math.floor(0.9 * (values.length - 1))];
    const top = values.at(-1) > 3 * middle - 2 * low ? middle : values.at(-1);
    let [from, to] = [low, Math.max(top, ...ends)];
    if (chosen.measure === "ratio") [from, to] = [Math.min(from, 1), Math.max(to, margin ?? 1)];
    const room = (to - from || Math.abs(to) || 1) * 0.04;
    return [from - room, to + room];
  };

  // ---- numbers ------------------------------------------------------------------------------------------------

  const UNITS = [[1e9, "B"], [1e6, "M"], [1e3, "K"]];
  const count = (value) => {
    const [size, unit] = UNITS.find(([size]) => Math.abs(value) >= size) ?? [1, ""];
    return `${+(value / size).toPrecision(4)}${unit}`;
  };
  const time = (seconds) => {
    if (seconds < 120) return `${+seconds.toFixed(1)} s`;
    if (seconds < 7200) return `${+(seconds / 60).toFixed(1)} min`;
    return `${+(seconds / 3600).toFixed(1)} h`;
  };
  const across = (value) => (chosen.against === "time" ? time(value) : count(value));
  const measured = (value) => {
    const digits = { loss: 4, perplexity: value < 100 ? 2 : 0, bits: 4, ratio: 3 }[chosen.measure];
    return value.toFixed(digits);
  };

  // ---- drawing ------------------------------------------------------------------------------------------------

  const element = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const draw = (figure, onto = null) => {
    const svg = figure.querySelector("svg.plot");
    const width = onto ?? Math.round(svg.parentElement.clientWidth);
    if (!width) return;
    const height = Math.min(HEIGHT, Math.max(260, width * 0.62));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const drawn = lines();
    figure.querySelector(".nothing").hidden = drawn.length > 0;
    figure.chart = null;
    if (!drawn.length) return;

    const xs = drawn.flatMap(({ points }) => [points[0][0], points.at(-1)[0]]);
    const [left, right] = [chosen.span === "end" ? Math.min(...xs) : 0, Math.max(...xs)];
    const [low, high] = extent(drawn);
    const x = (value) => EDGE.left + ((value - left) / (right - left || 1)) * (width - EDGE.left - EDGE.right);
    const y = (value) => height - EDGE.bottom - ((value - low) / (high - low)) * (height - EDGE.top - EDGE.bottom);

    const grid = element("g", { class: "grid" });
    for (const value of ticks(low, high, 6)) {
      grid.append(element("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }));
      const label = +value.toPrecision(8);
      grid.append(element("text", { x: EDGE.left - 8, y: y(value) + 4, "text-anchor": "end" }, label));
    }
    for (const value of ticks(left, right, width < 500 ? 3 : 7)) {
      const anchor = x(value) > width - 30 ? "end" : "middle";
      grid.append(element("text", { x: x(value), y: height - EDGE.bottom + 18, "text-anchor": anchor }, across(value)));
    }
    const corner = { x: width - EDGE.right, y: height - 5, "text-anchor": "end" };
    grid.append(element("text", corner, word(figure, "against")));
    const name = `${word(figure, "measure")} · ${word(figure, "split")}`;
    grid.append(element("text", { x: 0, y: 12, class: "axis" }, name));
    svg.append(grid);

    if (chosen.measure === "ratio") {
      for (const [value, kind] of [[1, "one"], [margin, "margin"]]) {
        if (!value) continue;
        const ends = { x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) };
        svg.append(element("line", { ...ends, class: `level ${kind}` }));
      }
    }

    const frameId = `frame-${figure.dataset.lang}-${figure.dataset.experiment}`;
    const frame = { x: EDGE.left, y: EDGE.top, width: width - EDGE.left - EDGE.right };
    const clip = element("clipPath", { id: frameId });
    clip.append(element("rect", { ...frame, height: height - EDGE.top - EDGE.bottom }));
    const all = element("g", { class: "lines", "clip-path": `url(#${frameId})` });
    const line = (points) => points.map(([px, py], i) => `${i ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join("");
    const kind = (arm, name) =>
      `${name} arm-${arms[arm].colour}${emphasised !== null && emphasised !== arm ? " dimmed" : ""}`;
    const draws = chosen.shown === "means" ? means(drawn.filter(({ run }) => !run.open)) : [];
    for (const { arm, rows } of draws.filter(({ rows }) => rows.length)) {
      const there = rows.map(({ x, high }) => [x, high]);
      const back = rows.map(({ x, low }) => [x, low]).reverse();
      all.append(element("path", { d: `${line([...there, ...back])}Z`, class: kind(arm, "band") }));
    }
    const alone = chosen.shown === "means" ? drawn.filter(({ run }) => run.open) : drawn;
    const curves = [
      ...draws.map(({ arm, rows }) => ({ arm, points: rows.map(({ x, mean }) => [x, mean]), name: "arm mean" })),
      ...alone.map(({ run, points }) => ({ arm: run.arm, points, name: run.open ? "arm open" : "arm" })),
    ];
    for (const { arm, points, name } of curves) {
      all.append(element("path", { d: line(points), class: kind(arm, name) }));
      if (points.length === 1) {
        const [[px, py]] = points;
        all.append(element("circle", { cx: x(px), cy: y(py), r: 3, class: `arm-${arms[arm].colour}` }));
      }
    }
    svg.append(clip, all, element("g", { class: "crosshair" }));
    const places = [...new Set(drawn.flatMap(({ points }) => points.map(([px]) => px)))].sort((a, b) => a - b);
    figure.chart = { drawn, x, y, places, width, height };
  };

  /** What is chosen, in the language of the figure. */
  const word = (figure, choice) =>
    figure.querySelector(`[data-choice="${choice}"][value="${chosen[choice]}"]`).parentElement.textContent.trim();

  const drawAll = () => figures.forEach((figure) => (leave(figure), draw(figure)));

  // ---- hover --------------------------------------------------------------------------------------------------

  const nearest = (points, at) =>
    points.reduce((best, point) => (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best));

  const look = (figure, at) => {
    const { drawn, x, y, width, height } = figure.chart;
    figure.at = at;
    const cross = figure.querySelector(".crosshair");
    const line = { x1: x(at), x2: x(at), y1: EDGE.top, y2: height - EDGE.bottom };
    cross.replaceChildren(element("line", line));
    const byArm = new Map();
    const [from, to] = [figure.chart.places[0], figure.chart.places.at(-1)];
    for (const { run, points } of drawn) {
      const point = nearest(points, at);
      // A run that ends long before the crosshair has no value there.
      if (Math.abs(point[0] - at) > (to - from) * 0.05 && points.length > 1) continue;
      if (!byArm.has(run.arm)) byArm.set(run.arm, new Map());
      byArm.get(run.arm).set(run.seed, point[1]);
      const cy = Math.max(EDGE.top, y(point[1]));
      cross.append(element("circle", { cx: x(point[0]), cy, r: 3.2, class: `arm-${arms[run.arm].colour}` }));
    }
    tell(figure, at, byArm);
    const box = figure.querySelector(".values");
    box.hidden = false;
    const scale = figure.querySelector("svg.plot").clientWidth / width;
    const room = figure.querySelector(".plot-area").clientWidth - box.offsetWidth;
    const right = x(at) * scale + 14;
    box.style.left = `${Math.max(0, right <= room ? right : Math.min(room, x(at) * scale - box.offsetWidth - 14))}px`;
  };

  /** A column per seed or, of many, of their mean and ends: names, each with what it shows of a map seed -> value. */
  const seedColumns = (figure, byArm) => {
    const seeds = new Set([...byArm.values()].flatMap((bySeed) => [...bySeed.keys()]));
    if (seeds.size > MOST_SEEDS) {
      const summaries = [meanOf, (values) => Math.min(...values), (values) => Math.max(...values)];
      const names = figure.dataset.summaries.split("|");
      return summaries.map((summary, i) => [names[i], (bySeed) => summary([...bySeed.values()])]);
    }
    const sorted = [...seeds].sort((a, b) => a - b);
    return sorted.map((seed) => [figure.dataset.seed.replace("{seed}", seed), (bySeed) => bySeed.get(seed)]);
  };

  const tell = (figure, at, byArm) => {
    const box = figure.querySelector(".values");
    const head = document.createElement("strong");
    head.textContent = `${word(figure, "against")} ${across(at)}`;
    const table = document.createElement("table");
    const columns = seedColumns(figure, byArm);
    const names = table.createTHead().insertRow();
    for (const name of ["", ...columns.map(([name]) => name)]) names.insertCell().textContent = name;
    const body = table.createTBody();
    const order = ([, bySeed]) => meanOf([...bySeed.values()]);
    for (const [arm, bySeed] of [...byArm].sort((a, b) => order(a) - order(b))) {
      const row = body.insertRow();
      const label = row.insertCell();
      const swatch = document.createElement("i");
      swatch.className = `swatch arm-${arms[arm].colour}`;
      label.append(swatch, arms[arm].label);
      for (const [, valueOf] of columns) {
        const value = valueOf(bySeed);
        row.insertCell().textContent = value === undefined ? "" : measured(value);
      }
    }
    box.replaceChildren(head, table);
  };

  const leave = (figure) => {
    figure.querySelector(".values").hidden = true;
    figure.querySelector(".crosshair")?.replaceChildren();
    figure.at = null;
  };

  // ---- wiring -------------------------------------------------------------------------------------------------

  for (const figure of figures) {
    const svg = figure.querySelector("svg.plot");
    const point = (event) => {
      if (!figure.chart) return;
      const frame = svg.getBoundingClientRect();
      const inside = (event.clientX - frame.left) * (figure.chart.width / frame.width);
      const { places, x } = figure.chart;
      look(figure, places.reduce((best, at) => (Math.abs(x(at) - inside) < Math.abs(x(best) - inside) ? at : best)));
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    // A finger is lifted to read what it has brought up.
    svg.addEventListener("pointerleave", (event) => event.pointerType === "touch" || leave(figure));
    svg.addEventListener("blur", () => leave(figure));
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || !figure.chart) return;
      event.preventDefault();
      const { places } = figure.chart;
      const now = figure.at === null ? (by > 0 ? -1 : places.length) : places.indexOf(figure.at);
      look(figure, places[Math.min(places.length - 1, Math.max(0, now + by))]);
    });
    figure.addEventListener("change", (event) => {
      const { value, dataset } = event.target;
      chosen[dataset.choice] = value;
      for (const other of figures) {
        // The other language shows the same chart.
        other.querySelector(`[data-choice="${dataset.choice}"][value="${value}"]`).checked = true;
      }
      drawAll();
    });
    for (const button of figure.querySelectorAll(".legend button")) {
      const arm = Number(button.dataset.arm);
      button.addEventListener("click", () => {
        if (!hidden.delete(arm)) hidden.add(arm);
        for (const other of figures) {
          const same = other.querySelector(`.legend button[data-arm="${arm}"]`);
          same.setAttribute("aria-pressed", String(!hidden.has(arm)));
        }
        drawAll();
      });
      button.addEventListener("pointerenter", () => ((emphasised = arm), drawAll()));
      button.addEventListener("pointerleave", () => ((emphasised = null), drawAll()));
    }
    new ResizeObserver(() => {
      // Only the width matters: the values below a narrow chart change the height.
      if (figure.chart?.width !== svg.parentElement.clientWidth) draw(figure);
    }).observe(svg.parentElement);
  }
  drawAll();
  window.addEventListener("beforeprint", () => figures.forEach((figure) => draw(figure, PAPER)), { signal });
  window.addEventListener("afterprint", drawAll, { signal });
};

const figuresOf = (anchor) => [...document.querySelectorAll(`figure.curves[data-experiment="${anchor}"]`)];
let shownCurves = new AbortController();

/** Draw all experiments of the page; of those that were there before, nothing is left. */
const showAllCurves = () => {
  shownCurves.abort();
  shownCurves = new AbortController();
  JSON.parse(document.getElementById("curves").textContent).forEach((data, place) => {
    showCurves(data, figuresOf(place), shownCurves.signal);
  });
};
showAllCurves();
