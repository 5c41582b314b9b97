#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# node: a program with garbage collection, buffers, compression and hashing in worker threads gives the same output.
. "$(dirname "$0")/common.sh"
need node nodejs

rounds=4
[ "$long" = 1 ] && rounds=60
cat >work.js <<'CODE'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib');
function work(seed, rounds) {
  const hash = crypto.createHash('sha256');
  let x = seed;
  const next = () => (x = (Math.imul(x, 1103515245) + 12345) & 0x7fffffff);
  for (let r = 0; r < rounds; ++r) {
    const map = new Map();
    for (let i = 0; i < 40000; ++i) map.set('k' + next() % 9973, { i, s: 'v'.repeat(next() % 50) });
    const text = JSON.stringify([...map].sort((a, b) => a[0] < b[0] ? -1 : 1));
    const packed = zlib.deflateSync(Buffer.from(text), { level: 6 });
    if (zlib.inflateSync(packed).toString() !== text) throw new Error('inflate');
    hash.update(packed);
    const parts = [];
    for (let i = 0; i < 2000; ++i) parts.push(Buffer.alloc(next() % 20000, i));
    hash.update(Buffer.concat(parts));
  }
  return hash.digest('hex');
}
if (isMainThread) {
  const rounds = Number(process.argv[2]);
  Promise.all([1, 2, 3, 4].map(seed => new Promise((done, failed) => {
    const w = new Worker(__filename, { workerData: { seed, rounds } });
    w.on('message', done); w.on('error', failed);
  }))).then(all => console.log([work(5, rounds), ...all].join('\n')));
} else parentPort.postMessage(work(workerData.seed, workerData.rounds));
CODE
without 600 node work.js $rounds >without.txt || fail "node fails without tarn"
with 600 node work.js $rounds >with.txt || fail "node fails with tarn (status $?)"
require_loaded node
compare "output" without.txt with.txt
same "node, 5 threads, $rounds rounds each"
