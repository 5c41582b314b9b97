// SPDX-License-Identifier: MIT
// Files that the bundler takes as texts.
declare module "*.txt" {
  const text: string;
  export default text;
}
