#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Typical mistakes in code that uses pools, recyclers, allocators and arenas: the compiler's first error says what is wrong and
what to write, and no errors of the headers' own lines bury it.

Usage: wrong_types_test.py COMPILER INCLUDE"""
import os
import subprocess
import sys
import tempfile
import unittest

compiler, include = sys.argv[1:3]

COMMON = """
struct node { int x; };
struct declared;
struct abstract { virtual void f() = 0; virtual ~abstract() = default; };
struct counted { explicit counted(int); };
"""
HEADERS = "#include <chrono>\n" + "".join(f"#include <tarn/{name}.hpp>\n" for name in (
    "arena", "buffer_pool", "coroutine_frames", "pool", "pooled", "recycler", "scope"))

NOT_HELD = ("node&", "node&&", "const node", "volatile node", "void()")
WHOLE = "T must be the type of whole objects"
ELEMENT = "T must be the type of a container's elements"
DECLARED = "T is only declared here"
ABSTRACT = "T is abstract"
# Front: code, and what is said of which types. TYPE is its name.
FRONTS = {
    "pool_of": ("void use() { auto& pool = tarn::pool_of<TYPE>(); pool.destroy(pool.create()); }",
                {WHOLE: (*NOT_HELD, "node[3]", "void"), DECLARED: ("declared",), ABSTRACT: ("abstract",)}),
    "pool_of, unique": ("void use() { (void)tarn::pool_of<TYPE>().make_unique(); }", {DECLARED: ("declared",)}),
    "pool_of, shared": ("void use() { (void)tarn::pool_of<TYPE>().make_shared(); }", {DECLARED: ("declared",), ABSTRACT: ("abstract",)}),
    "object_pool": ("void use() { tarn::object_pool<TYPE> pool; pool.destroy(pool.create()); (void)pool.make_unique(); }",
                    {WHOLE: (*NOT_HELD, "node[3]", "void"), DECLARED: ("declared",), ABSTRACT: ("abstract",)}),
    "local_pool": ("void use() { tarn::local_pool<TYPE> pool; (void)pool.try_create(); }",
                   {WHOLE: (*NOT_HELD, "node[3]", "void"), DECLARED: ("declared",), ABSTRACT: ("abstract",)}),
    "pooled": ("struct derived : tarn::pooled<TYPE> {};", {WHOLE: (*NOT_HELD, "node[3]", "void")}),
    "recycler": ("void use() { tarn::recycler<TYPE> objects; (void)objects.get(); }",
                 {WHOLE: (*NOT_HELD, "node[3]", "void"), DECLARED: ("declared",), "T has no default constructor": ("counted",)}),
    "pooled_allocator": ("void use() { tarn::pooled_allocator<TYPE> all; (void)all.allocate(1); }", {ELEMENT: NOT_HELD, DECLARED: ("declared",)}),
    "buffer_allocator": ("void use() { tarn::buffer_allocator<TYPE> all; (void)all.allocate(1); }", {ELEMENT: NOT_HELD, DECLARED: ("declared",)}),
    "frame_allocator": ("void use() { tarn::frame_allocator<TYPE> all; (void)all.allocate(1); }", {ELEMENT: NOT_HELD, DECLARED: ("declared",)}),
    "arena": ("void use(tarn::arena& memory) { (void)memory.create<TYPE>(); }",
              {"for an array create_array": ("node[3]",), DECLARED: ("declared",), ABSTRACT: ("abstract",)}),
    "arena, arrays": ("void use(tarn::arena& memory) { (void)memory.create_array<TYPE>(2); }", {DECLARED: ("declared",)}),
}
# What the compiler's answer says, in its first error or in the line of the header that it shows, to which code.
ANSWERS = {
    "write class order : public pooled<order>": ("struct wrong : tarn::pooled<node> {}; void use() { delete new wrong; }",),
    "operator new(std::size_t size) {  // derive publicly": ("class hidden : tarn::pooled<hidden> {}; void use() { (void)new hidden; }",),
    "neither copied nor moved: pass a reference": (
        "tarn::object_pool<node> one; auto two = one;", "tarn::local_pool<node> one; auto two = std::move(one);",
        "tarn::recycler<node> one; auto two = one;", "tarn::buffer_pool one; auto two = one;"),
    "std::move(handle), or pass a reference": ("tarn::recycler<node> all; auto one = all.get(); auto two = one;",),
    "std::move(buffer), or pass span()": ("tarn::buffer one; auto two = one;",),
    "std::move(arena), or pass a reference": ("tarn::arena one; auto two = one;",),
    "a factory has no parameters and returns a T": (
        "tarn::recycler<node> all([](int x) { return node{x}; });", "tarn::recycler<node> all([] { return new node; });",
        "tarn::recycler all([](int x) { return node{x}; });", "tarn::recycler all([] { return new node; });"),
    "a time has a unit: write std::chrono::milliseconds(2000), or 2s": (
        "tarn::recycler<node> all({.cycle = 2000});", "tarn::buffer_pool frames({.idle_time = 5});"),
    "pool_of<Derived>()": ("struct special : node {}; void use(special* one) { tarn::pool_of<node>().destroy(one); }",),
    "Base allocates another type than T": ("tarn::pooled_allocator<node, std::allocator<int>> all;",),
    "auto in = query.enter()": ("void use(tarn::scope& query) { query.enter(); }",),
}
# Right uses that look like the wrong ones.
RIGHT = """
struct tree { tarn::object_pool<tree> pool; tarn::recycler<int>* numbers; };
struct outer { struct inner { int x = 0; }; tarn::recycler<inner> all; };
struct forward;
struct owner { tarn::object_pool<forward> pool; tarn::local_pool<forward> local; tarn::pooled_allocator<forward> all; };
struct forward { int x; };
void use(owner& one) {
  auto& same = tarn::pool_of<node>();
  auto copy = tarn::pool_of<node>();
  same.destroy(copy.create());
  one.pool.destroy(one.pool.create());
  one.local.destroy(one.local.create());
  one.all.deallocate(one.all.allocate(1), 1);
  tarn::pool_of<node*>().destroy(tarn::pool_of<node*>().create());
  tarn::pool_of<abstract>().deallocate(tarn::pool_of<abstract>().allocate());
  tarn::pooled_allocator<node> from_void{tarn::pooled_allocator<void>()};
  tarn::frame_allocator<node> frame_from_void{tarn::frame_allocator<void>()};
  tarn::recycler<counted> three([] { return counted(3); });
  tarn::recycler_options options{.cycle = std::chrono::seconds(2)};
  tarn::recycler<counted>::factory make = [] { return counted(3); };
  tarn::recycler<counted> named(make, options);
  tarn::recycler<node> with_options(options);
  tarn::recycler deduced([] { return counted(3); }, options);
  (void)outer{}.all.get()->x;
}
static_assert(!std::is_copy_constructible_v<tarn::recycler<node>> && !std::is_constructible_v<tarn::recycler<node>, counted>);
"""


class wrong_types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.header = os.path.join(cls.folder.name, "all.hpp")
        with open(cls.header, "w", encoding="utf-8") as file:
            file.write(HEADERS + COMMON)
        is_clang = "clang" in subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
        # Read once; each use takes a tenth of the time.
        subprocess.run([compiler, "-std=c++20", "-I", include, "-x", "c++-header", cls.header, "-o",
                        cls.header + (".pch" if is_clang else ".gch")], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def answer_to(self, code):
        return subprocess.run([compiler, "-std=c++20", "-I", include, "-include", self.header, "-x", "c++", "-fsyntax-only", "-"],
                              input=code, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False).stderr

    def errors_of(self, code):
        return [line for line in self.answer_to(code).splitlines() if "error:" in line]

    def test_the_first_error_says_what_to_do(self):
        for front, (code, said) in FRONTS.items():
            for message, types in said.items():
                for each in types:
                    with self.subTest(front=front, type=each):
                        errors = self.errors_of(f"template <class T> struct one {{ using type = T; }};\nusing wrong = one<{each}>::type;\n"
                                                + code.replace("TYPE", "wrong"))
                        self.assertTrue(errors, "it compiles")
                        self.assertIn(message, errors[0])
                        self.assertEqual(len([error for error in errors if not error.startswith("<stdin>")]), 1, errors)

    def test_the_answer_says_what_to_do(self):
        for message, code in ((message, code) for message, codes in ANSWERS.items() for code in codes):
            with self.subTest(code=code):
                answer = self.answer_to(code)
                self.assertIn(message, answer)
                self.assertLess(len(answer.splitlines()), 25, answer)

    def test_right_uses(self):
        self.assertEqual(self.errors_of(RIGHT), [])

    def test_strict_warnings_and_macros_of_programs(self):
        macros = "".join(f"#define {name} __attribute__((__{name}__))\n" for name in ("noinline", "cold", "always_inline"))
        code = HEADERS.replace("#include <chrono>", "#include <bits/stdc++.h>\n" + macros) + "tarn::recycler_options one;\n"
        result = subprocess.run([compiler, "-std=c++20", "-I", include, "-Wold-style-cast", "-Werror", "-x", "c++", "-fsyntax-only", "-"],
                                input=code, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
