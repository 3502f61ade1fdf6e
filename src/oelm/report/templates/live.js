// A page that follows its runs: it asks how they are doing and, when runs have ended, for itself anew. What the reader
// has opened, chosen and hidden stays, and so does the part that is being read.
"use strict";

const POLL_MILLISECONDS = 1000;
let build = document.documentElement.dataset.build;
let liveTag = "";
let liveCurves = new AbortController();

const sectionOf = (part) => part.closest("section").id;

/** What the reader has set in a part of the page, as a function that sets it again in what has replaced it. */
const remember = (root) => {
  const opened = [...root.querySelectorAll("details[id]")].map(({ id, open }) => [id, open]);
  const chosen = [...root.querySelectorAll("figure.curves input:checked")].map(({ name, value }) => [name, value]);
  const hidden = [...root.querySelectorAll(".legend button[aria-pressed=false]")].map((button) => [
    sectionOf(button),
    button.textContent,
  ]);
  return () => {
    for (const [id, open] of opened) {
      const details = document.getElementById(id);
      if (details) details.open = open;
    }
    for (const [name, value] of chosen) {
      const input = document.querySelector(`input[name="${CSS.escape(name)}"][value="${CSS.escape(value)}"]`);
      if (input && !input.checked) input.click();
    }
    for (const [section, label] of hidden) {
      const buttons = document.getElementById(section)?.querySelectorAll(".legend button[aria-pressed=true]") ?? [];
      [...buttons].find((button) => button.textContent === label)?.click();
    }
  };
};

/** Change the page above or below what is being read without moving that. */
const keepingPlace = (change) => {
  const reading = window.scrollY > 0 ? sectionRead() : null;
  const before = reading?.getBoundingClientRect().top;
  change();
  const after = reading && document.getElementById(reading.id)?.getBoundingClientRect().top;
  if (reading && after !== undefined) window.scrollBy({ top: after - before, behavior: "instant" });
};

const replacePage = (text) => {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const restore = remember(document);
  const lives = new Map([...document.querySelectorAll(".page")].map((page) => [page.lang, page.querySelector(".live")]));
  for (const page of document.querySelectorAll(".page")) {
    const replacement = document.adoptNode(fresh.querySelector(`.page[lang=${page.lang}]`));
    replacement.querySelector(".live").replaceWith(lives.get(page.lang));
    page.replaceWith(replacement);
  }
  document.getElementById("curves").textContent = fresh.getElementById("curves").textContent;
  document.title = document.querySelector(`.page[lang=${document.documentElement.lang}] h1`).textContent;
  build = fresh.documentElement.dataset.build;
  showAllCurves();
  restore();
};

const replaceLive = ({ parts, curves }) => {
  const tops = [...document.querySelectorAll(".live")];
  const restores = tops.map(remember);
  for (const top of tops) top.innerHTML = parts[top.closest(".page").lang];
  liveCurves.abort();
  liveCurves = new AbortController();
  if (curves) showCurves(curves, figuresOf("live"), liveCurves.signal);
  restores.forEach((restore) => restore());
};

const asked = async (path, headers = {}) => {
  const answer = await fetch(path, { headers, cache: "no-store" });
  if (!answer.ok && answer.status !== 304) throw new Error(answer.statusText);
  return answer;
};

const follow = async () => {
  try {
    const answer = await asked("/state", liveTag ? { "If-None-Match": liveTag } : {});
    if (answer.status !== 304) {
      const state = await answer.json();
      const page = state.build === build ? null : await (await asked("/")).text();
      keepingPlace(() => {
        if (page !== null) replacePage(page);
        replaceLive(state);
      });
      liveTag = answer.headers.get("ETag");
    }
    showLost(false);
  } catch {
    showLost(true);
  }
  setTimeout(follow, POLL_MILLISECONDS);
};

const showLost = (isLost) => {
  for (const notice of document.querySelectorAll(".lost")) notice.hidden = !isLost;
};

follow();
