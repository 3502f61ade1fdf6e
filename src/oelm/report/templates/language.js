// The switch between the two languages: both are in the page, <html lang> says which one is shown.
"use strict";

/** The part of the page that is at the top of the window. */
const sectionRead = () =>
  [...document.querySelectorAll(".page section[id]")]
    .filter((part) => part.getClientRects().length)
    .findLast((part) => part.getBoundingClientRect().top < 80);

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.switch");
  if (!button) return;
  const reading = sectionRead();
  const inOther = reading && document.getElementById(reading.id.replace(/^[^-]+/, button.dataset.to));
  document.documentElement.lang = button.dataset.to;
  document.title = document.querySelector(`.page[lang=${button.dataset.to}] h1`).textContent;
  // Stay at the part that is being read; the texts differ in length.
  if (inOther && window.scrollY > 0) inOther.scrollIntoView({ behavior: "instant" });
});
