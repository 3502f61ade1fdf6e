// The switch between the two languages: both are in the page, <html lang> says which one is shown.
"use strict";

for (const button of document.querySelectorAll("button.switch")) {
  button.addEventListener("click", () => {
    const shown = [...document.querySelectorAll(".page section[id]")].filter((part) => part.getClientRects().length);
    const reading = shown.findLast((part) => part.getBoundingClientRect().top < 80);
    const inOther = reading && document.getElementById(reading.id.replace(/^[^-]+/, button.dataset.to));
    document.documentElement.lang = button.dataset.to;
    document.title = document.querySelector(`.page[lang=${button.dataset.to}] h1`).textContent;
    // Stay at the part that is being read; the texts differ in length.
    if (inOther && window.scrollY > 0) inOther.scrollIntoView({ behavior: "instant" });
  });
}
