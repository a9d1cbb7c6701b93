"use strict";
// The page reads without this script. It adds values under the pointer, smoothing, lines to switch
// off, buttons that copy, and, on a live page, the changes of a run.
(() => {
  const SIDE = 1000, POLL_MS = 3000;
  let smoothing = 0.03;
  const all = (root, selector) => [...root.querySelectorAll(selector)];

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function written(value, data) {
    const scaled = value * data.factor;
    const digits = Math.abs(scaled) >= 1e5 || (scaled !== 0 && Math.abs(scaled) < 1e-3) ? 3 : 4;
    const text = Math.abs(scaled) >= 1000 && Math.abs(scaled) < 1e9
      ? Math.round(scaled).toLocaleString("en-US") : String(Number(scaled.toPrecision(digits + 1)));
    return data.unit === "%" ? text + "%" : data.unit ? text + " " + data.unit : text;
  }

  function place(value, [low, high], isLog) {
    return isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  }

  function smoothed(values, reach) {
    return values.map((_, at) => {
      const window = values.slice(Math.max(0, at - reach), at + Math.min(at, reach) + 1);
      return window.reduce((sum, value) => sum + value, 0) / window.length;
    });
  }

  function path(steps, values, data) {
    return steps.map((step, at) => {
      const x = SIDE * place(step, data.across, false);
      const y = SIDE * (1 - place(values[at], data.upward, data.log));
      return (at ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1);
    }).join("");
  }

  function smooth(figure, data) {
    data.lines.forEach((line, number) => {
      const group = figure.querySelector(`[data-line="${number}"]`);
      const [steps, values] = line.mean || [line.x, line.y];
      const reach = Math.floor(steps.length * smoothing / 2);
      group.classList.toggle("smooth", reach > 0);
      group.querySelector(".mean").setAttribute("d", reach ? path(steps, smoothed(values, reach), data) : "");
    });
  }

  function nearest(steps, step) {
    let low = 0, high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - steps[low - 1] < steps[low] - step ? low - 1 : low;
  }

  function fillTip(tip, data, step, hidden) {
    tip.replaceChildren(element("div", "", `${data.along} ${Number(step.toPrecision(6)).toLocaleString("en-US")}`));
    data.lines.forEach((line, number) => {
      const at = nearest(line.x, step);
      if (hidden.has(number) || line.y[at] === null) return;
      const isTotal = data.stacked && number === data.lines.length - 1;
      const row = element("div", isTotal ? "ink" : "c" + line.color);
      let text = written(line.y[at], data);
      // A line of a long run has not all of its steps.
      if (line.x[at] !== step) text += ` at ${line.x[at].toLocaleString("en-US")}`;
      if (line.low) text += ` [${written(line.low[at], data)}, ${written(line.high[at], data)}]`;
      row.append(element("i"), element("b", "", line.name), element("span", "", text));
      tip.append(row);
    });
  }

  function answer(figure, data, hidden) {
    const over = element("div", "over"), cursor = element("div", "cursor"), tip = element("div", "tip");
    over.tabIndex = 0;
    over.setAttribute("role", "group");
    over.setAttribute("aria-label", "Values of the chart: move with the arrow keys");
    tip.setAttribute("aria-live", "polite");
    over.append(cursor, tip);
    figure.querySelector(".plot").append(over);
    const steps = [...new Set(data.lines.flatMap((line) => line.x))].sort((one, other) => one - other);
    let at = steps.length - 1;
    const hide = () => { cursor.hidden = tip.hidden = true; };
    const show = () => {
      const share = place(steps[at], data.across, false);
      cursor.hidden = tip.hidden = false;
      cursor.style.left = 100 * share + "%";
      fillTip(tip, data, steps[at], hidden);
      tip.style.left = tip.style.right = "";
      if (share > 0.5) tip.style.right = `calc(${100 * (1 - share)}% + .6rem)`;
      else tip.style.left = `calc(${100 * share}% + .6rem)`;
      // On a narrow page a tip beside the cursor may not fit.
      if (tip.offsetWidth > (over.offsetWidth * Math.max(share, 1 - share)) - 10) {
        tip.style.left = "0"; tip.style.right = "";
      }
    };
    const point = (event) => {
      const box = over.getBoundingClientRect(), share = (event.clientX - box.left) / box.width;
      at = nearest(steps, data.across[0] + share * (data.across[1] - data.across[0]));
      show();
    };
    over.addEventListener("pointermove", point);
    over.addEventListener("pointerdown", (event) => {
      point(event);
      // After a tap the values stay until the next one elsewhere.
      over.focus({ preventScroll: true });
    });
    over.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hide(); });
    // The finger scrolls the page.
    over.addEventListener("pointercancel", () => over.blur());
    over.addEventListener("blur", hide);
    over.addEventListener("focus", show);
    over.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, Home: -steps.length, End: steps.length }[event.key];
      if (!move) return;
      event.preventDefault();
      at = Math.min(steps.length - 1, Math.max(0, at + move));
      show();
    });
    hide();
  }

  function switchLines(figure, hidden) {
    all(figure, ".legend span").forEach((entry, number) => {
      const button = element("button", entry.className);
      button.type = "button";
      button.append(...entry.childNodes);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const isHidden = !hidden.delete(number);
        if (isHidden) hidden.add(number);
        button.setAttribute("aria-pressed", String(!isHidden));
        figure.querySelector(`[data-line="${number}"]`).style.display = isHidden ? "none" : "";
      });
      entry.replaceWith(button);
    });
  }

  function initCharts(root) {
    for (const figure of all(root, "figure.chart")) {
      const data = JSON.parse(figure.querySelector("script").textContent), hidden = new Set();
      answer(figure, data, hidden);
      if (!data.stacked) switchLines(figure, hidden);
      if (data.noisy && smoothing !== 0.03) smooth(figure, data);
      figure.data = data;
    }
    for (const slider of all(root, "input.smoothing")) {
      slider.value = String(smoothing);
      slider.addEventListener("input", () => {
        smoothing = Number(slider.value);
        for (const figure of all(document, "figure.chart")) if (figure.data.noisy) smooth(figure, figure.data);
      });
    }
  }

  async function copy(button) {
    const text = button.dataset.copy ?? button.parentElement.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = element("textarea", "", text);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  }

  function initCarousel(root) {
    for (const track of all(root, ".carousel")) {
      const controls = track.previousElementSibling, counter = controls.querySelector("span");
      const slides = [...track.children];
      const shown = () => slides.findIndex((slide) => slide.offsetLeft - track.offsetLeft >= track.scrollLeft - 8);
      const count = () => { counter.textContent = `${shown() + 1} of ${slides.length}`; };
      all(controls, "button").forEach((button, number) => button.addEventListener("click", () => {
        const next = slides[Math.min(slides.length - 1, Math.max(0, shown() + (number ? 1 : -1)))];
        track.scrollTo({ left: next.offsetLeft - track.offsetLeft, behavior: "smooth" });
      }));
      track.addEventListener("scroll", count, { passive: true });
      count();
      // A browser without the codec of a video still has its frames.
      for (const video of all(track, "video")) video.addEventListener("error", () => video.remove());
    }
  }

  function init(root) {
    initCharts(root);
    initCarousel(root);
    for (const button of all(root, ".copy")) button.addEventListener("click", () => copy(button));
  }

  function replace(anchor, html) {
    const old = document.getElementById(anchor), holder = element("template");
    holder.innerHTML = html;
    const fresh = holder.content.firstElementChild;
    const opened = all(old, "details").map((each) => each.open);
    all(fresh, "details").forEach((each, number) => { each.open = opened[number] ?? each.open; });
    const scrolled = old.querySelector(".carousel")?.scrollLeft;
    old.replaceWith(fresh);
    init(fresh);
    if (scrolled) fresh.querySelector(".carousel")?.scrollTo({ left: scrolled });
  }

  async function follow() {
    const state = document.getElementById("live");
    try {
      const known = Object.fromEntries(all(document, "[data-version]").map((each) => [each.id, each.dataset.version]));
      const answered = await fetch("changes?" + new URLSearchParams(known));
      const changes = await answered.json();
      if (changes.reload) location.reload();
      // What is being read stays as it is until the next time.
      for (const [anchor, html] of Object.entries(changes.sections ?? {})) {
        if (!document.getElementById(anchor).matches(":has(.over:hover, .over:focus, video:hover)")) replace(anchor, html);
      }
      state.textContent = "live";
    } catch {
      state.textContent = "not connected";
    }
    setTimeout(follow, POLL_MS);
  }

  document.addEventListener("pointerdown", (event) => {
    const shown = document.activeElement;
    if (shown?.matches(".over") && !shown.contains(event.target)) shown.blur();
  });
  document.documentElement.classList.add("scripted");
  init(document);
  if ("live" in document.body.dataset) setTimeout(follow, POLL_MS);
})();
