// Tables that sort, and the list of flips: filters that stand in the address, a link to each, rows when asked for.
"use strict";

for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const compare = (a, b) => isNaN(key(a)) || isNaN(key(b)) ? key(b).localeCompare(key(a)) : key(b) - key(a);
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
  const pattern = document.getElementById("row").content.firstElementChild;
  const selects = Object.fromEntries(["class", "slice", "waived"].map(
    name => [name, document.getElementById(`filter-${name}`)]));
  const made = new Map([...gallery.children].map((row, place) => [place, row]));
  const fresh = new Set(flips.fresh), waived = new Set(flips.waived);
  let found = [], shown = 0;

  // What each filter can be set to: name, and which flips it leaves.
  const choices = {
    class: flips.names.map((name, place) => [name, flip => flips.label[flip] === place]),
    slice: flips.slices.map((name, place) => [name, flip => flips.keys.some(key => key[flip] === place)]),
    waived: waived.size ? [["yes", flip => waived.has(flip)], ["no", flip => !waived.has(flip)]] : [],
  };
  const counts = {
    class: count(flips.label, flips.names.length),
    slice: flips.keys.map(key => count(key, flips.slices.length)).reduce(
      (one, other) => one.map((n, place) => n + other[place]), flips.slices.map(() => 0)),
    waived: [waived.size, flips.ids.length - waived.size],
  };

  function count(places, length) {
    const n = new Array(length).fill(0);
    for (const place of places) if (place >= 0) n[place]++;
    return n;
  }

  for (const [name, select] of Object.entries(selects)) {
    const order = choices[name].map((_, place) => place).filter(place => counts[name][place]);
    if (name !== "waived") order.sort((a, b) => counts[name][b] - counts[name][a]);
    for (const place of order) {
      const option = new Option(`${choices[name][place][0]} (${number(counts[name][place])})`, choices[name][place][0]);
      select.append(option);
    }
    select.closest("label").hidden = order.length === 0;
    select.addEventListener("change", () => { remember(); filter(); });
  }

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
    const tests = Object.entries(selects).filter(([, select]) => select.value !== "").map(
      ([name, select]) => choices[name].find(([value]) => value === select.value)[1]);
    found = [];
    for (let flip = 0; flip < flips.ids.length; flip++) if (tests.every(test => test(flip))) found.push(flip);
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
    status.textContent = `${of} flip${all === 1 ? "" : "s"}${some === all ? "" : " fit the filters"}` +
      (shown < some ? `; the first ${number(shown)} are shown.` : ".");
    more.hidden = shown >= some;
    more.textContent = `Show ${number(Math.min(MORE, some - shown))} more`;
  }

  function remember() {
    const chosen = Object.entries(selects).filter(([, select]) => select.value !== "");
    const words = new URLSearchParams(chosen.map(([name, select]) => [name, select.value])).toString();
    try {
      history.replaceState(null, "", "#" + (words || "flips"));
    } catch {
      // A page inside a notebook has no address of its own.
    }
  }

  // What the address asks for: one flip, or filters.
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
        for (const select of Object.values(selects)) select.value = "";
        filter();
        if (!there.isConnected) gallery.prepend(there);
      }
      there.classList.add("linked");
      there.scrollIntoView({ block: "center" });
      there.focus({ preventScroll: true });
      return;
    }
    const words = new URLSearchParams(asked);
    for (const [name, select] of Object.entries(selects)) {
      const value = words.get(name) ?? "";
      select.value = [...select.options].some(option => option.value === value) ? value : "";
    }
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
    for (const select of Object.values(selects)) select.value = "";
    remember();
    filter();
  });
  window.addEventListener("hashchange", follow);
  document.getElementById("filters").hidden = false;
  filter();
  follow();
}
