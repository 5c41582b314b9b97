// SPDX-License-Identifier: MIT
// The report's page as people use it: on a phone (390 pixels, by touch) and on a desk (1,400 pixels, by keyboard), light and
// dark. looks_test.mjs PAGE_FOLDER SAMPLE_PROGRAM OUT_FOLDER: writes a screenshot of each section into OUT_FOLDER, and fails if
// the page is wider than the screen, writes to the console, has a control that the Tab key does not reach or that does not show
// its focus, a touch target below 24 × 24 pixels (WCAG 2.5.8), or text with less contrast than WCAG 1.4.3 asks for.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as path from "node:path";

const [page_folder, sample_program, out] = process.argv.slice(2);
const { chromium } = createRequire(path.join(page_folder, "package.json"))("playwright-core");
fs.mkdirSync(out, { recursive: true });

const samples = ["usual", "hostile", "damaged", "empty"].map((kind) => {
  const file = path.join(out, `${kind}.html`);
  execFileSync(sample_program, [kind, file]);
  return { kind, address: `file://${file}` };
});
const screens = [
  { name: "phone", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
  { name: "desk", viewport: { width: 1400, height: 900 } },
];

// Runs in the page: what is wrong with it as it stands.
function inspect() {
  const problems = [];
  const shown = (one) => {
    const box = one.getBoundingClientRect();
    const style = getComputedStyle(one);
    return box.width > 1 && box.height > 1 && style.visibility !== "hidden" && style.opacity !== "0" && one.checkVisibility();
  };
  const say = (one) => `${one.tagName.toLowerCase()}${one.id ? `#${one.id}` : ""}.${String(one.className).replace(/ /g, ".")} ` +
    `"${(one.getAttribute?.("aria-label") ?? one.textContent ?? "").trim().slice(0, 40)}"`;
  const root = document.scrollingElement;
  if (root.scrollWidth > innerWidth) problems.push(`the page is ${root.scrollWidth} pixels wide`);
  for (const one of document.querySelectorAll("main *")) {
    const box = one.getBoundingClientRect();
    let clips = false;
    for (let up = one.parentElement; up; up = up.parentElement) clips ||= getComputedStyle(up).overflowX !== "visible";
    if (shown(one) && !clips && box.right > innerWidth + 1) problems.push(`beyond the edge: ${say(one)}`);
  }
  // Colours of any notation, by drawing them.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  canvas.canvas.width = canvas.canvas.height = 1;
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [red, green, blue, alpha / 255]);
    }
    return known.get(colour);
  };
  const over = (upper, lower) => [0, 1, 2].map((index) => upper[index] * upper[3] + lower[index] * (1 - upper[3])).concat(1);
  const ground_of = (one) => {
    const layers = [];
    for (let up = one; up; up = up.parentElement) {
      const colour = rgba(getComputedStyle(up).backgroundColor);
      layers.push(colour);
      if (colour[3] >= 1) break;
    }
    return layers.reverse().reduce((so_far, layer) => over(layer, so_far), [255, 255, 255, 1]);
  };
  const light = ([red, green, blue]) => {
    const linear = [red, green, blue].map((part) => part / 255).map((part) => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
    return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
  };
  const contrast = (one, other) => (Math.max(light(one), light(other)) + .05) / (Math.min(light(one), light(other)) + .05);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || seen.has(one) || !shown(one) || one.closest("script, style, noscript, option")) continue;
    seen.add(one);
    const style = getComputedStyle(one);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ground = ground_of(one);
    const ratio = contrast(over(rgba(style.color), ground), ground);
    if (ratio < (large ? 3 : 4.5)) problems.push(`contrast ${ratio.toFixed(2)} at ${size} px: ${say(one)}`);
    if (size < 11) problems.push(`text of ${size} pixels: ${say(one)}`);
  }
  return problems;
}

// Runs in the page of a phone: controls that a finger misses. Links within a sentence may be as high as their line.
function inspect_targets() {
  const problems = [];
  for (const one of document.querySelectorAll("button, a[href], select, input, summary, label:has(input)")) {
    if (!one.checkVisibility() || getComputedStyle(one).opacity === "0" || one.classList.contains("skip")) continue;
    if (one.matches("p a, p button.link, li > a, td p button")) continue;
    const box = one.getBoundingClientRect();
    if (box.width > 1 && (box.width < 24 || box.height < 24)) {
      problems.push(`${Math.round(box.width)} × ${Math.round(box.height)}: ${one.tagName.toLowerCase()}.${one.className} ` +
        `"${(one.getAttribute("aria-label") ?? one.textContent).trim().slice(0, 30)}"`);
    }
  }
  return problems;
}

// Presses Tab until the focus comes back, and returns the controls that never had it, and those whose focus does not show.
async function walk_by_tab(page) {
  await page.evaluate(() => {
    globalThis.visited = new Set();
    globalThis.unseen = [];
    document.activeElement.blur();
    getSelection().removeAllRanges();
    globalThis.note = () => {
      const one = document.activeElement;
      if (one === document.body || visited.has(one)) return false;
      visited.add(one);
      // A radio button is drawn by the element that follows it.
      const drawn = getComputedStyle(one).opacity === "0" ? one.nextElementSibling : one;
      const style = getComputedStyle(drawn);
      const box = drawn.getBoundingClientRect();
      const inside = box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight;
      if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 1 || !inside) {
        unseen.push(`${one.outerHTML.slice(0, 100)} (${style.outlineStyle} ${style.outlineWidth}, inside: ${inside})`);
      }
      return true;
    };
  });
  for (let press = 0; press < 3000; ++press) {
    await page.keyboard.press("Tab");
    if (!await page.evaluate(() => note())) break;
  }
  return await page.evaluate(() => ({
    unseen,
    count: visited.size,
    missed: [...document.querySelectorAll("button, a[href], select, input, summary, [tabindex='0']")].filter((one) => {
      // The Tab key stops once at a group of radio buttons, and once at a grid that the arrow keys walk (tabindex -1).
      if (one.type === "radio") return ![...document.getElementsByName(one.name)].some((each) => visited.has(each));
      return one.checkVisibility() && one.tabIndex >= 0 && !visited.has(one) && !one.disabled;
    }).map((one) => one.outerHTML.slice(0, 100)),
  }));
}

const failures = [];
const check = (where, problems) => { for (const one of new Set(problems)) failures.push(`${where}: ${one}`); };

async function look(browser, screen, scheme, { kind, address }) {
  const where = `${screen.name}, ${scheme}, ${kind}`;
  const { name, ...options } = screen;
  const context = await browser.newContext({ ...options, colorScheme: scheme });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  page.on("console", (message) => { if (message.type() !== "log" && !/getImageData/.test(message.text())) failures.push(`${where}: ${message.text()}`); });
  page.on("pageerror", (error) => failures.push(`${where}: ${error.message}`));
  await page.goto(address);
  check(where, await page.evaluate(inspect));
  const press = (locator) => options.hasTouch ? locator.tap() : locator.click();
  if (kind === "usual") {
    const sections = await page.locator("main > section").evaluateAll((all) => all.map((one) => one.id));
    for (const id of sections) {
      await page.locator(`#${id}`).evaluate((one) => one.scrollIntoView());
      await page.waitForTimeout(60);
      await page.screenshot({ path: path.join(out, `${name}-${scheme}-${id}.png`) });
    }
    // Everything that opens is opened.
    await press(page.locator("#sites .table:not([hidden]) tbody button.toggle").first());
    await page.screenshot({ path: path.join(out, `${name}-${scheme}-open-row.png`) });
    await page.locator("details").evaluateAll((all) => { for (const one of all) one.open = true; });
    await page.locator("#verdict").evaluate((one) => one.scrollIntoView());
    await page.screenshot({ path: path.join(out, `${name}-${scheme}-advice.png`) });
    check(`${where}, all open`, await page.evaluate(inspect));
  }
  if (options.hasTouch) {
    check(`${where}, touch target`, await page.evaluate(inspect_targets));
    if (kind === "usual") {
      // The navigation is reached by swiping, and a touch leads to the section.
      await page.locator('nav a[href="#method"]').scrollIntoViewIfNeeded();
      await page.locator('nav a[href="#method"]').tap();
      await page.waitForTimeout(100);
      const top = await page.locator("#method").evaluate((one) => one.getBoundingClientRect().top);
      check(where, top >= 0 && top < 844 ? [] : [`a touch on Method leads to ${top}`]);
      await page.locator("#flame-graph").evaluate((one) => one.scrollIntoView());
      await page.locator("#flame-graph canvas").tap({ position: { x: 60, y: 28 } });
      assert.ok((await page.locator(".flame-name").textContent()).length > 0, `${where}: a touch names a frame`);
    }
  } else {
    await page.goto(address); // the first Tab starts at the beginning of the page
    const walked = await walk_by_tab(page);
    check(`${where}, not reached by Tab`, walked.missed);
    check(`${where}, focus not seen`, walked.unseen);
    assert.ok(kind === "empty" || walked.count > 20, `${where}: ${walked.count} stops`);
    // A focused control, as it looks.
    await page.locator("#sites .table:not([hidden]) thead button").first().focus().catch(() => {});
    await page.keyboard.press("Tab");
    await page.screenshot({ path: path.join(out, `${name}-${scheme}-${kind}-focus.png`) });
  }
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: path.join(out, `${name}-${scheme}-${kind}-whole.png`), fullPage: true });
  await context.close();
}

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium", headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
try {
  for (const screen of screens) {
    for (const scheme of ["light", "dark"]) {
      for (const sample of samples) await look(browser, screen, scheme, sample);
    }
  }
} finally {
  await browser.close();
}
console.log(`${fs.readdirSync(out).filter((name) => name.endsWith(".png")).length} screenshots in ${out}`);
for (const one of failures) console.log(`FAIL ${one}`);
process.exit(failures.length > 0 ? 1 : 0);
