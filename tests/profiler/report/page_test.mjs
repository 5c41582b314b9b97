// SPDX-License-Identifier: MIT
// Tests of the report's page in Chromium: page_test.mjs PAGE_FOLDER SAMPLE_PROGRAM [NAME…], where NAME picks tests by
// words in their names. Every test also fails if the page writes to the console or requests anything except its own
// file.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as os from "node:os";
import * as path from "node:path";

const [page_folder, sample_program, ...wanted] = process.argv.slice(2);
const { chromium } = createRequire(path.join(page_folder, "package.json"))("playwright-core");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tarn-report-"));

const samples = new Map();
function sample(kind) {
  if (!samples.has(kind)) {
    const file = path.join(folder, `${kind}.html`);
    execFileSync(sample_program, [kind, file]);
    samples.set(kind, file);
  }
  return samples.get(kind);
}
const address_of = (kind) => `file://${sample(kind)}`;

// The data in the report's file, read without the page's script.
function data_of(kind) {
  const html = fs.readFileSync(sample(kind), "utf8");
  return JSON.parse(/id="data">([^]*?)<\/script>/.exec(html)[1]);
}
const sum = (values) => values.reduce((so_far, one) => so_far + one, 0);

const tests = [];
function test(name, kind, run, options = {}) { tests.push({ name, kind, run, options }); }

const rows = (page) => page.locator("#sites .table:not([hidden]) tbody tr:not(.details)");
const foot = (page, id) => page.locator(`#sites .table:not([hidden]) tfoot [data-sum="${id}"]`)
  .getAttribute("data-value").then(Number);
const flame_total = (page) => page.locator("#flame-line [data-total]").getAttribute("data-total").then(Number);
const metric_columns = {
  cost: ["malloc_ns", "fault_ns", "unmap_ns"], hidden: ["fault_ns", "unmap_ns"], malloc: ["malloc_ns"], bytes: ["bytes"],
  allocations: ["allocations"], temporary: ["lifo_frees"], live: ["live_bytes"], peak: ["bytes_at_peak"], faults: ["faults"], untouched: ["untouched_bytes"],
};

for (const kind of ["usual", "large", "deep", "faults", "empty", "damaged"]) {
  test(`${kind}: every section is there`, kind, async (page) => {
    const ids = ["verdict", "sites", "flame", "timeline", "memory", "lifetimes", "threads", "untouched", "method", "about"];
    const headings = await page.locator("main h2").allTextContents();
    assert.equal(headings.length, ids.length);
    for (const id of ids) {
      assert.ok(await page.locator(`#${id}`).evaluate((one) => one.textContent.length) > 40, id);
    }
  });
}

test("totals agree in every view", "usual", async (page) => {
  const { totals } = data_of("usual");
  for (const [id, columns] of Object.entries(metric_columns)) {
    const expected = sum(columns.map((name) => totals[name]));
    assert.equal(await foot(page, id), expected, `sites: ${id}`);
    if (expected === 0) continue;
    await page.selectOption("#flame select", id);
    for (const direction of ["inverted", "normal"]) {
      await page.locator(`#flame input[value=${direction}]`).check({ force: true });
      assert.equal(await flame_total(page), expected, `flame graph, ${direction}: ${id}`);
    }
  }
  for (const view of ["sites", "types"]) {
    await page.locator(`#sites input[value=${view}]`).check({ force: true });
    for (const [id, columns] of Object.entries(metric_columns)) {
      assert.equal(await foot(page, id), sum(columns.map((name) => totals[name])), `${view}: ${id}`);
    }
  }
  const shown = await page.locator("#verdict [data-part]").evaluateAll((all) => all.map((one) => Number(one.dataset.value)));
  assert.equal(sum(shown), sum(metric_columns.cost.map((name) => totals[name])));
});

// The words of the terminal's summary, without the blanks that make its columns.
for (const kind of ["usual", "damaged"]) {
  test(`${kind}: the first screen says what the terminal says`, kind, async (page) => {
    const letters = (text) => text.replace(/[\s,]/g, "").toLowerCase();
    const shown = letters(await page.locator("#verdict .problem").textContent());
    const { summary, actions } = data_of(kind);
    for (const line of summary.problem.split("\n")) {
      // Why code has no name: its first words open the rest.
      for (const cell of line.split("\t").flatMap((one) => (/^ {10}/.test(one) && !line.includes("\t") ? one.split(/: (.*)/) : [one]))) {
        assert.ok(shown.includes(letters(cell)), cell);
      }
    }
    const todo = letters(await page.locator("#verdict .actions").textContent());
    for (const one of actions.slice(0, 5)) {
      for (const words of [one.headline, one.figures]) assert.ok(todo.includes(letters(words)), words);
    }
    for (const line of summary.next.split("\n")) assert.ok(todo.includes(letters(line)), line);
  });
}

for (const [width, height] of [[390, 844], [768, 1024], [1400, 900]]) {
  test(`${width} pixels: what, where and what to do are on the first screen`, "usual", async (page) => {
    for (const part of [".lead", ".where tr:nth-child(3)", ".action-title"]) {
      const box = await page.locator(`#verdict ${part}`).first().boundingBox();
      assert.ok(box.y > 0 && box.y + box.height <= height, `${part}: ${Math.round(box.y)} to ${Math.round(box.y + box.height)}`);
    }
  }, { viewport: { width, height } });
}

test("what changed: totals and call paths as the terminal has them", "changed", async (page) => {
  const { difference } = data_of("changed");
  for (const { name } of difference.metrics) {
    const one = difference.totals[name];
    const shown = await page.locator(`#difference [data-change=${name}]`).getAttribute("data-value");
    assert.equal(Number(shown), one.after[0] - one.before[0], name);
  }
  const changes = () => page.locator("#difference .table tbody tr:not(.others) td:nth-child(2)").evaluateAll((cells) =>
    cells.map((cell) => Math.abs(Number(cell.title.replace(/[^-\d]/g, "")))));
  const found = await changes();
  assert.ok(found.length > 2);
  assert.deepEqual(found, [...found].sort((a, b) => b - a));
  await page.selectOption("#difference select", { label: (await page.locator("#difference option", { hasText: /^bytes:/ }).textContent()) });
  assert.notDeepEqual(await changes(), found);
});

test("no comparison, no section", "usual", async (page) => {
  assert.equal(await page.locator("#difference, nav a[href='#difference']").count(), 0);
});

test("table and flame graph follow a part of the run", "parts", async (page) => {
  const { slices } = data_of("parts");
  const expected = sum(slices.bytes.filter((_, cell) => slices.slice[cell] === 1));
  await page.locator("#timeline input[type=range]").evaluateAll((all) => {
    for (const [index, seconds] of [[0, 120], [1, 170]]) {
      all[index].value = String(seconds);
      all[index].dispatchEvent(new Event("input"));
    }
  });
  await page.locator("#sites .chip").waitFor();
  assert.equal(await page.locator("#sites .chip").textContent(), "100.00 s to 200.00 s ✕");
  assert.equal(await foot(page, "span_bytes"), expected);
  assert.equal(await flame_total(page), expected);
  assert.equal(await rows(page).count(), new Set(slices.row.filter((_, cell) => slices.slice[cell] === 1)).size);
  await page.getByRole("button", { name: "Whole run" }).click();
  await page.locator("#sites .chip").waitFor({ state: "detached" });
  assert.equal(await foot(page, "span_bytes"), sum(slices.bytes));
});

test("a profile without single calls says that nothing follows", "usual", async (page) => {
  assert.match(await page.locator("#timeline").textContent(), /stay those of the whole run.*--mode full/);
});

test("a column sorts, by mouse and by keyboard", "usual", async (page) => {
  const head = page.locator("#sites thead th", { hasText: "Calls" }).first();
  const column = async () => (await rows(page).locator("td:nth-child(6)").evaluateAll((cells) =>
    cells.map((cell) => Number(cell.title.replace(/\D/g, "")))));
  await head.locator("button").click();
  assert.equal(await head.getAttribute("aria-sort"), "descending");
  let values = await column();
  assert.ok(values.length >= 40);
  assert.deepEqual(values, [...values].sort((a, b) => b - a));
  await head.locator("button").press("Enter");
  assert.equal(await head.getAttribute("aria-sort"), "ascending");
  values = await column();
  assert.deepEqual(values, [...values].sort((a, b) => a - b));
});

test("the filter narrows, sums follow, Escape undoes", "usual", async (page) => {
  const all = await foot(page, "cost");
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "search");
  await page.keyboard.type("json parse_value");
  const names = await rows(page).locator(".name").allTextContents();
  assert.ok(names.length > 0 && names.length < 200);
  assert.ok(await foot(page, "cost") < all);
  assert.match(await page.locator("#sites .status").textContent(), /of 201 call paths/);
  await page.keyboard.press("Escape");
  assert.equal(await foot(page, "cost"), all);
  await page.keyboard.type("no such thing anywhere");
  assert.equal(await rows(page).count(), 0);
  assert.equal(await foot(page, "cost"), 0);
});

test("rows open and are walked by keyboard", "usual", async (page) => {
  const toggles = page.locator("#sites .table:not([hidden]) tbody button.toggle");
  await toggles.first().focus();
  await page.keyboard.press("Enter");
  assert.equal(await toggles.first().getAttribute("aria-expanded"), "true");
  assert.ok(await page.locator("#sites .path li").count() > 1);
  await page.keyboard.press("ArrowDown");
  assert.ok(await toggles.nth(1).evaluate((one) => one === document.activeElement));
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("#sites .path").count(), 0);
});

test("a place leads to its call paths", "large", async (page) => {
  const place = rows(page).filter({ hasText: /\d call paths/ }).first();
  await place.locator("button.toggle").click();
  const paths = page.locator("#sites .path button");
  assert.ok(await paths.count() > 1);
  await paths.first().click();
  assert.ok(await page.locator("#sites input[value=sites]").isChecked());
  const open = page.locator("#sites .table:not([hidden]) button[aria-expanded=true]");
  assert.ok(await open.evaluate((one) => one === document.activeElement));
});

test("estimates show their samples", "damaged", async (page) => {
  assert.ok(await page.locator("#sites .table:not([hidden]) thead").getByText("Samples").isVisible());
  await page.locator("#sites .table:not([hidden]) tbody button.toggle").nth(1).click();
  assert.match(await page.locator("#sites .detail").first().textContent(), /so ±/);
});

test("the flame graph is walked by keyboard, zooms, and filters the sites", "usual", async (page) => {
  const whole = await flame_total(page);
  await page.locator("#flame-graph").focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown"]) await page.keyboard.press(key);
  const part = await flame_total(page);
  assert.ok(part > 0 && part < whole);
  const name = await page.locator(".flame-name").textContent();
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".flame-name").textContent(), name);
  assert.ok(await page.locator(".flame-path button").count() >= 3);
  await page.keyboard.press("s");
  assert.equal(await foot(page, "cost"), part);
  await page.locator("#sites .chip").click();
  assert.equal(await foot(page, "cost"), whole);
  await page.locator("#flame-graph").focus();
  for (let press = 0; press < 3; ++press) await page.keyboard.press("Escape");
  assert.equal(await flame_total(page), whole);
});

test("the flame graph by mouse, inverted, highlighted", "usual", async (page) => {
  const whole = await flame_total(page);
  await page.locator("#flame-graph canvas").click({ position: { x: 60, y: 28 } });
  assert.ok(await flame_total(page) <= whole);
  await page.getByRole("button", { name: "Show all" }).click();
  assert.equal(await flame_total(page), whole);
  await page.locator("#flame input[value=inverted]").check({ force: true });
  assert.equal(await flame_total(page), whole);
  await page.fill("#flame-search", "decode");
  assert.match(await page.locator("#flame .controls .status").textContent(), /%/);
  await page.fill("#flame-search", "no such thing");
  assert.match(await page.locator("#flame .controls .status").textContent(), /no frame/);
});

test("deep recursion: the graph ends where the frames end, and is drawn there", "deep", async (page) => {
  const drawn = () => page.locator("#flame-graph canvas").evaluate((one) =>
    new Set([...one.getContext("2d").getImageData(10, 30, 1, 300).data]).size);
  assert.ok(await drawn() > 3);
  await page.locator("#flame-graph").evaluate((one) => { one.scrollTop = 60_000; });
  await page.waitForTimeout(50);
  assert.ok(await page.locator("#flame-graph").evaluate((one) => one.scrollTop) === 60_000);
  assert.ok(await drawn() > 3);
  assert.ok(await page.locator("#flame-graph canvas").evaluate((one) => one.height) < 2000);
  await page.locator("#flame-graph canvas").click({ position: { x: 30, y: 50 } });
  assert.ok(await page.locator(".flame-path button").count() >= 3);
});

test("a part of the timeline, by mouse and by keyboard", "usual", async (page) => {
  const { counters } = data_of("usual");
  const heading = page.locator("#timeline h3");
  assert.match(await heading.textContent(), /Whole run/);
  const figure = (id) => page.locator(`#timeline [data-window=${id}]`).textContent();
  const whole = await figure("allocations");
  await page.locator("#timeline").scrollIntoViewIfNeeded();
  const box = await page.locator("#timeline .u-over").first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 70, { steps: 5 });
  await page.mouse.up();
  assert.doesNotMatch(await heading.textContent(), /Whole run/);
  assert.notEqual(await figure("allocations"), whole);
  const [from, to] = await page.locator("#timeline input[type=range]").evaluateAll((all) => all.map((one) => Number(one.value)));
  assert.ok(from > 0 && to > from && to < counters.time_ns.length - 1);
  const faults = counters.faults[to] - counters.faults[from];
  const shown = (await figure("faults")).split(" ")[0].replace(/,/g, "");
  if (/^\d+$/.test(shown)) assert.equal(Number(shown), faults);
  await page.locator("#timeline input[type=range]").first().focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.locator("#timeline input[type=range]").first().inputValue(), String(from + 1));
  await page.getByRole("button", { name: "Whole run" }).click();
  assert.equal(await figure("allocations"), whole);
});

test("a cell of the lifetimes filters the sites", "usual", async (page) => {
  const first = page.locator("#lifetimes td button").first();
  await first.focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => document.activeElement.closest("#lifetimes td") !== null), true);
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("#sites .chip").count(), 1);
  assert.ok(await rows(page).count() > 0);
  const all = data_of("usual").sites.kind.length;
  assert.match(await page.locator("#sites .status").textContent(), new RegExp(`of ${all} call paths`));
});

test("light and dark, chosen and by the system", "usual", async (page) => {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const pixel = () => page.locator("#flame-graph canvas").evaluate((one) => [...one.getContext("2d").getImageData(8, 4, 1, 1).data].join());
  await page.locator("#theme input[value=light]").check({ force: true });
  const light = [await paper(), await pixel()];
  await page.locator("#theme input[value=dark]").check({ force: true });
  const dark = [await paper(), await pixel()];
  assert.notEqual(light[0], dark[0]);
  assert.notEqual(light[1], dark[1]);
  await page.reload();
  assert.equal(await paper(), dark[0], "the choice is remembered");
  await page.locator("#theme input[value=system]").check({ force: true });
  await page.emulateMedia({ colorScheme: "light" });
  assert.equal(await paper(), light[0]);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.equal(await paper(), dark[0]);
});

test("advice leads to its site", "usual", async (page) => {
  await page.locator("#verdict summary").first().click();
  assert.ok(await page.locator("#verdict pre").first().isVisible());
  await page.getByRole("button", { name: "Show the site" }).first().click();
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-expanded")), "true");
});

test("a phone: nothing is wider than the screen", "usual", async (page) => {
  assert.ok(await page.evaluate(() => document.scrollingElement.scrollWidth) <= 390);
  await page.locator("#sites tbody button.toggle").first().click();
  assert.ok(await page.evaluate(() => document.scrollingElement.scrollWidth) <= 390);
  const { width } = await page.locator("#sites .detail").first().boundingBox();
  assert.ok(width <= 390);
}, { viewport: { width: 390, height: 844 } });

test("printed: no controls", "usual", async (page) => {
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator(".top").isVisible(), false);
  assert.equal(await page.locator("#sites .controls").isVisible(), false);
  assert.ok((await page.pdf()).length > 20_000);
});

test("every control has a name and a place in the tab order", "usual", async (page) => {
  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select, a, [tabindex]")].filter((one) => {
    const label = one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.[0]?.textContent.trim();
    return !label || one.tabIndex > 0;
  }).map((one) => one.outerHTML.slice(0, 120)));
  assert.deepEqual(nameless, []);
  const levels = await page.locator("h1, h2, h3, h4").evaluateAll((all) => all.map((one) => Number(one.tagName[1])));
  levels.forEach((level, index) => assert.ok(index === 0 ? level === 1 : level <= levels[index - 1] + 1));
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
});

test("nothing moves by itself", "usual", async (page) => {
  await page.waitForTimeout(300);
  assert.ok(await page.evaluate(() => globalThis.shifts) < 0.01);
}, { before: (page) => page.addInitScript(() => {
  globalThis.shifts = 0;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) globalThis.shifts += one.value;
  }).observe({ type: "layout-shift", buffered: true });
}) });

test("hostile names do not become markup or script", "hostile", async (page) => {
  for (const toggle of await page.locator("#sites .table:not([hidden]) tbody button.toggle").all()) await toggle.click();
  await page.locator("#flame-graph").hover({ position: { x: 50, y: 60 } });
  await page.locator("#sites input[value=types]").check({ force: true });
  assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
  assert.equal(await page.locator("img, svg, main script, iframe, object").count(), 0);
  assert.match(await page.locator("h1, .command").allTextContents().then((all) => all.join()), /<img src=x onerror/);
});

test("the page's policy forbids the network and other scripts", "usual", async (page) => {
  const outcome = await page.evaluate(async () => {
    const broken = [];
    addEventListener("securitypolicyviolation", (event) => broken.push(event.effectiveDirective));
    const fetched = await fetch("http://127.0.0.1:9/").then(() => "fetched", () => "refused");
    const script = document.createElement("script");
    script.textContent = "globalThis.foreign = 1";
    document.body.append(script);
    const link = document.createElement("b");
    link.setAttribute("onclick", "globalThis.foreign = 1");
    document.body.append(link);
    link.click();
    await new Promise((done) => setTimeout(done, 50));
    return { broken, fetched, foreign: globalThis.foreign };
  });
  assert.equal(outcome.fetched, "refused");
  assert.equal(outcome.foreign, undefined);
  assert.ok(outcome.broken.includes("connect-src"));
}, { noisy: true });

for (const kind of ["large", "huge"]) test(`a ${kind} profile opens within two seconds, and stays usable`, kind, async (page) => {
  assert.ok(fs.statSync(sample(kind)).size < 20 * 2 ** 20);
  const times = [];
  // The best of three; of more where other programs share the machine.
  for (let round = 0; round < 3 || (round < 8 && Math.min(...times) >= 2000); ++round) {
    const before = performance.now();
    await page.goto(address_of(kind));
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    times.push(performance.now() - before);
  }
  const steps = {};
  for (const [name, step] of [
    ["metric", () => page.selectOption("#flame select", "faults")],
    ["inverted", () => page.locator("#flame input[value=inverted]").check({ force: true })],
    ["filter", () => page.fill("#search", "pass_7")]]) {
    const before = performance.now();
    await step();
    steps[name] = Math.round(performance.now() - before);
  }
  console.log(`    ${(fs.statSync(sample(kind)).size / 2 ** 20).toFixed(1)} MiB, opened in ${times.map(Math.round).join(", ")} ms; ` +
    Object.entries(steps).map(([name, time]) => `${name} ${time} ms`).join(", "));
  assert.ok(Math.min(...times) < 2000);
  for (const [name, time] of Object.entries(steps)) assert.ok(time < 2000, name);
});

async function run_one(context, one) {
  const page = await context.newPage();
  const noise = [];
  page.on("console", (message) => { if (message.type() !== "log" && !/getImageData/.test(message.text())) noise.push(`${message.type()}: ${message.text()}`); });
  page.on("pageerror", (error) => noise.push(`error: ${error.message}`));
  page.on("request", (request) => { if (request.url() !== address_of(one.kind)) noise.push(`request: ${request.url().slice(0, 100)}`); });
  page.setDefaultTimeout(30_000);
  try {
    await page.setViewportSize(one.options.viewport ?? { width: 1280, height: 900 });
    await one.options.before?.(page);
    await page.goto(address_of(one.kind));
    assert.equal(await page.evaluate(() => document.documentElement.dataset.ready), "yes", "the page came up");
    await one.run(page);
    if (!one.options.noisy) assert.deepEqual(noise, []);
  } finally {
    await page.close();
  }
}

const context = await chromium.launchPersistentContext(path.join(folder, "browser"), {
  executablePath: "/usr/bin/chromium", headless: true, viewport: { width: 1280, height: 900 },
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
let failed = 0;
try {
  for (const one of tests) {
    if (wanted.length > 0 && !wanted.some((word) => one.name.includes(word))) continue;
    const before = performance.now();
    try {
      await run_one(context, one);
      console.log(`ok   ${one.name} (${Math.round(performance.now() - before)} ms)`);
    } catch (error) {
      ++failed;
      console.log(`FAIL ${one.name}\n${error.stack}`);
    }
  }
} finally {
  await context.close();
  fs.rmSync(folder, { recursive: true, force: true });
}
process.exit(failed > 0 ? 1 : 0);
