"use strict";
const records = [...document.querySelectorAll("details.record")];
const words = new Map(records.map((one) => [one, one.textContent.toLowerCase()]));
const box = document.getElementById("search");
const found = document.getElementById("found");
function search() {
  const wanted = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const one of records) one.hidden = !wanted.every((word) => words.get(one).includes(word));
  for (const group of document.querySelectorAll("section.cause"))
    group.hidden = !group.querySelector("details.record:not([hidden])");
  const count = records.filter((one) => !one.hidden).length;
  found.textContent = wanted.length ? `${count} of ${records.length}` : "";
}
function reveal() {
  const one = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (one && one.matches("details.record")) { one.open = true; one.scrollIntoView(); }
}
function whole(block) {
  for (const link of block.querySelectorAll("a"))
    link.replaceWith(whole(document.getElementById(link.hash.slice(1))).trimEnd());
  return block.textContent;
}
for (const one of document.querySelectorAll("details.record details"))
  one.addEventListener("toggle", () => whole(one.querySelector("pre")));
document.getElementById("searching").hidden = false;
box.addEventListener("input", search);
addEventListener("hashchange", reveal);
search();
reveal();
