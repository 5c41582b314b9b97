// SPDX-License-Identifier: MIT
// Makes ../bundle/report.html, the report's page without data, of index.html, style.css and src/. With --check it
// writes nothing and fails where the committed bundle is not what the sources give.
import * as crypto from "node:crypto";
import * as fs from "node:fs";
import * as path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild-wasm";

const here = path.dirname(fileURLToPath(import.meta.url));
const target = path.join(here, "../bundle/report.html");

async function bundle(entry) {
  const made = await build({
    entryPoints: [path.join(here, entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["es2022", "chrome123", "firefox120", "safari17.5"],
    charset: "utf8",
    legalComments: "none", // licences are in THIRD-PARTY.txt, which the page shows
    loader: { ".txt": "text" },
    logLevel: "warning",
    absWorkingDir: here,
  });
  return made.outputFiles[0].text.trim();
}

function source_hash(text) {
  return `'sha256-${crypto.createHash("sha256").update(text).digest("base64")}'`;
}

async function make_page() {
  const script = await bundle("src/main.ts");
  const style = await bundle("style.css");
  if (/<\/(script|style)/i.test(script + style)) throw new Error("the bundle would end its own element");
  const replacements = {
    "@SCRIPT_HASH@": source_hash(script),
    "@STYLE_HASH@": source_hash(style),
    "@STYLE@": style,
    "@SCRIPT@": script,
  };
  const template = fs.readFileSync(path.join(here, "index.html"), "utf8");
  return template.replace(/@(SCRIPT_HASH|STYLE_HASH|STYLE|SCRIPT)@/g, (mark) => replacements[mark]);
}

const page = await make_page();
if (process.argv.includes("--check")) {
  const committed = fs.existsSync(target) ? fs.readFileSync(target, "utf8") : "";
  if (committed !== page) {
    console.error("bundle/report.html is not what page/ gives. Run: npm ci && npm run build, in profiler/report/page");
    process.exit(1);
  }
  console.log("bundle/report.html is what page/ gives");
} else {
  fs.mkdirSync(path.dirname(target), { recursive: true });
  fs.writeFileSync(target, page);
  console.log(`bundle/report.html: ${(page.length / 1024).toFixed(0)} KiB`);
}
