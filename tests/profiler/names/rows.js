// SPDX-License-Identifier: MIT
// A program for the tests of names: its functions allocate blocks outside of V8's heap, again and again, until they have been
// compiled; it goes on for the number of milliseconds that its first argument says.
function makeRow(number) {
  return new ArrayBuffer(100000 + number % 10);
}

function makeRows(count) {
  let bytes = 0;
  for (let number = 0; number < count; ++number) bytes += makeRow(number).byteLength;
  return bytes;
}

const end = Date.now() + Number(process.argv[2]);
let bytes = 0;
do {
  bytes += makeRows(100);
} while (Date.now() < end);
console.log(bytes > 0);
