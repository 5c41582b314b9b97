// SPDX-License-Identifier: MIT
// units_test.mjs PAGE_FOLDER TABLE: the page spells quantities as the terminal does (quantity_test.cpp reads the same
// table), but for the space before a unit.
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as path from "node:path";

const [page_folder, table] = process.argv.slice(2);
const { transformSync } = createRequire(path.join(page_folder, "package.json"))("esbuild-wasm");
const { code } = transformSync(fs.readFileSync(path.join(page_folder, "src/units.ts"), "utf8"), { loader: "ts" });
const units = await import(`data:text/javascript,${encodeURIComponent(code)}`);

const rows = JSON.parse(fs.readFileSync(table, "utf8"));
for (const [what, value, text, margin = 0] of rows) {
  const shown = what === "share" ? units.show_share(value, 1, margin) : units.show_estimate(value, (margin / 1.96) ** 2, what);
  assert.equal(shown.replaceAll(units.narrow, " "), text, `${what} ${value}`);
}
console.log(`${rows.length} quantities are spelled alike`);
