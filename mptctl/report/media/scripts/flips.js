// Tables that sort, and the list of flips: by class, which stands in the address; a link to each; rows when asked for.
"use strict";

for (const table of document.querySelectorAll("table")) {
  table.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      // By the first number of each cell, else by its text.
      const text = row => row.cells[column].textContent;
      const key = row => parseFloat(text(row).replace(/[,<]/g, ""));
      const compare = (a, b) => isNaN(key(a)) || isNaN(key(b)) ? text(b).localeCompare(text(a)) : key(b) - key(a);
      const rows = [...table.tBodies[0].rows].sort((a, b) => up ? compare(b, a) : compare(a, b));
      table.tBodies[0].append(...rows);
    });
  });
}

// Rows that are added at a time.
const MORE = 24;
const anchorOf = id => "flip-" + encodeURIComponent(id).replace(/%2F/g, "/").replace(/'/g, "%27");
const number = value => value.toLocaleString("en-US");

function listFlips(flips) {
  const gallery = document.getElementById("gallery");
  const status = document.getElementById("shown");
  const more = document.getElementById("more");
  const select = document.getElementById("filter-class");
  const pattern = document.getElementById("row").content.firstElementChild;
  const made = new Map([...gallery.children].map((row, place) => [place, row]));
  const fresh = new Set(flips.fresh), waived = new Set(flips.waived);
  let found = [], shown = 0;

  const counts = new Array(flips.names.length).fill(0);
  for (const label of flips.label) counts[label]++;
  const classes = [...counts.keys()].filter(label => counts[label]).sort((a, b) => counts[b] - counts[a]);
  for (const label of classes)
    select.append(new Option(`${flips.names[label]} (${number(counts[label])})`, flips.names[label]));
  select.addEventListener("change", () => { remember(); filter(); });

  function row(flip) {
    if (!made.has(flip)) made.set(flip, build(flip));
    return made.get(flip);
  }

  // One row, like those that stand in the page.
  function build(flip) {
    const item = pattern.cloneNode(true), id = flips.ids[flip];
    const put = (where, text) => {
      const place = item.querySelector(where);
      if (text === null) place.remove(); else place.textContent = text;
    };
    item.id = anchorOf(id);
    put(".right", flips.names[flips.label[flip]]);
    put(".wrong", flips.names[flips.answer[flip]]);
    put(".old-sure", flips.old[flip] === null ? null : `${flips.old[flip]} %`);
    put(".new-sure", flips.new[flip] === null ? null : `${flips.new[flip]} %`);
    put(".fresh", fresh.has(flips.answer[flip]) ? "(new class)" : null);
    put(".waived", waived.has(flip) ? "waived" : null);
    put("code", id);
    item.querySelector("a").href = "#" + item.id;
    return item;
  }

  function filter() {
    found = [...flips.ids.keys()].filter(flip => !select.value || flips.names[flips.label[flip]] === select.value);
    shown = 0;
    gallery.replaceChildren();
    show(MORE);
  }

  function show(n) {
    gallery.append(...found.slice(shown, shown + n).map(row));
    shown = Math.min(found.length, shown + n);
    say();
  }

  function say() {
    const all = flips.ids.length, some = found.length;
    const of = some === all ? `${number(all)}` : `${number(some)} of ${number(all)}`;
    status.textContent = `${of} flip${all === 1 ? "" : "s"}${some === all ? "" : " have the class"}` +
      (shown < some ? `; the first ${number(shown)} are shown.` : ".");
    more.hidden = shown >= some;
    more.textContent = `Show ${number(Math.min(MORE, some - shown))} more`;
  }

  function remember() {
    const words = select.value && new URLSearchParams({ class: select.value }).toString();
    try {
      history.replaceState(null, "", "#" + (words || "flips"));
    } catch {
      // A page inside a notebook has no address of its own.
    }
  }

  // What the address asks for: one flip, or a class.
  function follow() {
    const asked = location.hash.slice(1);
    gallery.querySelector(".linked")?.classList.remove("linked");
    if (asked.startsWith("flip-")) {
      const flip = place(asked);
      if (flip < 0) {
        filter();
        status.textContent = "No flip of this page has the id that the address asks for.";
        return;
      }
      const there = row(flip);
      if (!there.isConnected) {
        select.value = "";
        filter();
        if (!there.isConnected) gallery.prepend(there);
      }
      there.classList.add("linked");
      there.scrollIntoView({ block: "center" });
      there.focus({ preventScroll: true });
      return;
    }
    const value = new URLSearchParams(asked).get("class") ?? "";
    select.value = [...select.options].some(option => option.value === value) ? value : "";
    filter();
    if (found.length < flips.ids.length) document.getElementById("flips").scrollIntoView();
  }

  function place(asked) {
    try {
      return flips.ids.indexOf(decodeURIComponent(asked.slice("flip-".length)));
    } catch {
      return -1;
    }
  }

  more.addEventListener("click", () => {
    const next = shown;
    show(MORE);
    row(found[next]).querySelector("a").focus();
  });
  document.getElementById("reset").addEventListener("click", () => {
    select.value = "";
    remember();
    filter();
  });
  window.addEventListener("hashchange", follow);
  document.getElementById("filters").hidden = false;
  filter();
  follow();
}
