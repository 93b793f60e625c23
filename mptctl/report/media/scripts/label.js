// One row after the other is labelled by keys or buttons; the browser keeps the labels under the name of the draw.
"use strict";

const { draw, rows, classes, other } = ASKED;
const at = id => document.getElementById(id);
const buttons = [...at("choices").children];
let labels = {}, place = 0;
try {
  labels = JSON.parse(localStorage.getItem(draw)) ?? {};
} catch {
  // A browser that keeps nothing for this page.
}

const choices = () => [...rows[place].choices, ...other];

function show(wanted) {
  place = Math.max(0, Math.min(rows.length - 1, wanted));
  const { id, picture } = rows[place], label = labels[place], done = Object.keys(labels).length;
  at("status").textContent = `Row ${place + 1} of ${rows.length}; ${done} labelled.`;
  at("sample").textContent = id;
  at("picture").hidden = picture === null;
  if (picture !== null) at("picture").src = picture;
  buttons.forEach((button, i) => {
    button.lastElementChild.textContent = choices()[i];
    button.setAttribute("aria-pressed", label === choices()[i]);
  });
  at("class").value = label === undefined || choices().includes(label) ? "" : label;
}

function label(text) {
  labels[place] = text;
  try {
    localStorage.setItem(draw, JSON.stringify(labels));
  } catch {
    // As above: the labels last as long as the page.
  }
  show(place + 1);
}

// A spreadsheet takes text that begins so for a formula; mptctl takes the apostrophe off again.
const cell = text => `"${text.replace(/^(?='*[=+\-@])/, "'").replace(/"/g, '""')}"`;

function save() {
  const lines = rows.map((row, i) => [row.id, `${draw}-${i}`, labels[i] ?? ""].map(cell).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([["id,draw,label", ...lines, ""].join("\n")], { type: "text/csv" }));
  link.download = "labelled.csv";
  link.click();
}

for (const name of classes) at("classes").append(new Option(name));
buttons.forEach((button, i) => button.addEventListener("click", () => label(choices()[i])));
at("class").addEventListener("change", () => {
  const name = at("class").value;
  at("class").blur();
  if (classes.includes(name)) label(name);
  else if (name) at("status").textContent = `No class of either model is called ${name}.`;
});
at("back").addEventListener("click", () => show(place - 1));
at("next").addEventListener("click", () => show(place + 1));
at("save").addEventListener("click", save);
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target === at("class")) return;
  if (event.key === "ArrowLeft") show(place - 1);
  else if (event.key === "ArrowRight") show(place + 1);
  else if (/^[1-4]$/.test(event.key)) label(choices()[event.key - 1]);
});
at("labelling").hidden = false;
const first = rows.findIndex((_, i) => !(i in labels));
show(first < 0 ? rows.length - 1 : first);
