// SPDX-License-Identifier: MIT
// names: short forms of demangled C++ names, for places where the whole would not fit.

// The index behind the bracket that closes the one at `from`, or the end.
function behind_bracket(name: string, from: number): number {
  const close: Record<string, string> = { "<": ">", "(": ")", "{": "}", "[": "]" };
  const open: string[] = [];
  for (let at = from; at < name.length; ++at) {
    const letter = name[at]!;
    if (letter in close) {
      open.push(close[letter]!);
    } else if (letter === ">" && name[at - 1] === "-") {
      continue;
    } else if (letter === open[open.length - 1]) {
      open.pop();
      if (open.length === 0) return at + 1;
    }
  }
  return name.length;
}

// Without arguments of functions and templates: "a::b<int>::c(char*) const" becomes "a::b<…>::c".
function without_arguments(name: string): string {
  let text = "";
  let at = 0;
  while (at < name.length) {
    const rest = name.slice(at);
    const operator = /^operator\s*(\(\)|\[\]|<=>|<<=?|>>=?|<=?|>=?|->\*?)/.exec(rest);
    if (operator && !/\w$/.test(text)) {
      text += operator[0];
      at += operator[0].length;
    } else if (rest.startsWith("(anonymous namespace)")) {
      text += "(anonymous)";
      at += "(anonymous namespace)".length;
    } else if (name[at] === "{") {
      const end = behind_bracket(name, at);
      const number = /#\d+/.exec(name.slice(end - 6, end));
      text += rest.startsWith("{lambda") ? `{lambda${number ? number[0] : ""}}` : name.slice(at, end);
      at = end;
    } else if (name[at] === "<") {
      text += "<…>";
      at = behind_bracket(name, at);
    } else if (name[at] === "(") {
      const end = behind_bracket(name, at);
      if (name[end] === ".") text += name.slice(at, end); // Go: main.(*server).handle
      at = end;
    } else if (name[at] === "[") {
      at = behind_bracket(name, at); // [clone .part.0], [abi:cxx11]
    } else {
      text += name[at];
      ++at;
    }
  }
  return text.replace(/(\s+(const|volatile|&|&&))+\s*$/, "").trim();
}

// Python's own names for code without a name: "<module>", "load.<locals>.<listcomp>".
const of_python = /^([\w.]|<(module|lambda|listcomp|setcomp|dictcomp|genexpr|locals)>)+$/;

export function short_name(name: string): string {
  if (name.startsWith("?? ") || !/[<( ]/.test(name) || of_python.test(name)) return name;
  // Rust's "<T as Trait>::f" is T's f, and "<T>::f" too.
  const type = name.startsWith("<") ? behind_bracket(name, 0) : 0;
  if (type > 0 && name.startsWith("::", type)) {
    const self = name.slice(1, type - 1);
    return short_name(self.replace(/ as (?![^<]*>).*$/, "")) + short_name(name.slice(type));
  }
  // Of a function that returns a pointer to a function, or a reference to an array, what stands within that type.
  const declared = name.search(/ \([*&]/);
  if (declared > 0 && !/[<(]/.test(name.slice(0, declared))) {
    return short_name(name.slice(declared + 2, behind_bracket(name, declared + 1) - 1).replace(/^[*&]+/, ""));
  }
  const text = without_arguments(name);
  // A template's name begins with the type that it returns; operators have blanks of their own.
  const operator = text.search(/\boperator\b/);
  const blank = text.lastIndexOf(" ", operator >= 0 ? operator : text.length);
  const short = blank >= 0 ? text.slice(blank + 1) : text;
  return short || name;
}
