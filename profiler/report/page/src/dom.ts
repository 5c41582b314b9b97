// SPDX-License-Identifier: MIT
// dom: making elements. Text goes into text nodes and nowhere else: names come from the program that was profiled and may
// be anything. Nothing in this page may set innerHTML or an attribute that runs code.

export type content = Node | string | number | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Record<string, string | number | boolean | undefined> = {}, ...children: content[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  append(made, children);
  return made;
}

export function append(parent: Node, children: content[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(typeof child === "object" ? child : document.createTextNode(String(child)));
  }
}

export function replace(parent: Element, ...children: content[]): void {
  parent.textContent = "";
  append(parent, children);
}

// The section of index.html with this id, its heading written.
export function section(id: string, heading: string, ...intro: content[]): HTMLElement {
  const place = document.getElementById(id)!;
  place.append(el("h2", { id: `${id}-heading` }, heading));
  if (intro.length > 0) place.append(el("p", { class: "intro" }, ...intro));
  return place;
}

export function button(label: string, press: () => void, attributes: Record<string, string> = {}): HTMLButtonElement {
  const made = el("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", press);
  return made;
}

// A labelled choice; `chosen` gets the value.
export function choice(
  label: string, options: { value: string; text: string; disabled?: boolean }[], value: string,
  chosen: (value: string) => void,
): HTMLLabelElement {
  const list = el("select", {});
  for (const one of options) {
    list.append(el("option", { value: one.value, disabled: one.disabled, selected: one.value === value }, one.text));
  }
  list.addEventListener("change", () => chosen(list.value));
  return el("label", { class: "field" }, el("span", {}, label), list);
}

// A few exclusive choices side by side, as radio buttons.
export function switcher(
  label: string, options: { value: string; text: string }[], value: string, chosen: (value: string) => void,
): HTMLFieldSetElement {
  const name = `switch-${label.replace(/\W+/g, "-")}`;
  const made = el("fieldset", { class: "switch" }, el("legend", {}, label));
  for (const one of options) {
    const input = el("input", { type: "radio", name, value: one.value, checked: one.value === value });
    input.addEventListener("change", () => chosen(one.value));
    made.append(el("label", {}, input, el("span", {}, one.text)));
  }
  return made;
}

// A bar of `share` (0 to 1) of its place; decoration beside a figure that is written out.
export function bar(share: number, kind = "bar"): HTMLElement {
  const fill = el("i", { class: kind });
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el("span", { class: "track", "aria-hidden": "true" }, fill);
}
