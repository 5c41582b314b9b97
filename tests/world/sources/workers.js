// SPDX-License-Identifier: MIT
// Worker threads with buffers outside of the JavaScript heap, and zlib. Prints a sum.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const zlib = require('zlib');
if (!isMainThread) {
  let sum = 0;
  for (let i = 0; i < workerData.rounds; ++i) {
    const text = Buffer.alloc(5000 + i * 7, String(i));
    sum += zlib.inflateSync(zlib.deflateSync(text)).length + text[i];
  }
  parentPort.postMessage(sum);
} else {
  const rounds = Number(process.argv[2] || 100);
  let sum = 0, left = 3;
  for (let index = 0; index < 3; ++index) {
    new Worker(__filename, { workerData: { rounds } }).on('message', (each) => {
      sum += each;
      if (--left === 0) console.log(sum);
    });
  }
}
