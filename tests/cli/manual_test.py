# SPDX-License-Identifier: MIT
"""The forms of the commands' definition: help, manual pages, and completions in bash, zsh and fish have the same options,
and those are the options that the command accepts. The completions are tried in the shells themselves."""
import json
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time

from harness import Base, tarn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def manual(*words):
    result = tarn("--print-manual", *words)
    assert result.returncode == 0, result.stderr
    return result.stdout


class Manual(Base):
    @classmethod
    def setUpClass(cls):
        cls.verbs = json.loads(manual("json"))

    def options_of(self, verb):
        return {name for option in self.verbs[verb]["options"] for name in option["names"]}

    def need(self, *programs):
        for program in programs:
            if not shutil.which(program):
                self.skipTest(f"{program} is not installed")


class manual_forms(Manual):
    """Every option is in every form, and no form has another one."""

    def test_there_are_all_commands(self):
        listed = re.findall(r"(?m)^  ([a-z]+) {2,}", tarn("help").stdout.split("Examples:")[0])
        self.assertEqual(sorted(listed), sorted([*self.verbs, "help"]))
        for verb in self.verbs:
            self.assertTrue(self.options_of(verb) >= {"--help", "-h", "--version", "-V", "--color", "--json"}, verb)

    def test_help(self):
        for verb in self.verbs:
            text = tarn(verb, "--help").stdout
            found = set()
            for line in re.findall(r"(?m)^  (-\S+)", text.split("\nExit codes:")[0]):
                found |= set(line.split(","))
            self.assertEqual(found, self.options_of(verb), verb)

    def test_manual_pages(self):
        for verb in self.verbs:
            page = manual("man", verb).replace("\\-", "-")
            entries = re.findall(r"(?m)^\.TP\n(\\fB-.*)$", page.split(".SH OPTIONS")[1].split(".SH EXIT")[0])
            found = {name for entry in entries for name in re.findall(r"\\fB(-[^\\]*)\\fR", entry)}
            self.assertEqual(found, self.options_of(verb), verb)

    def test_bash(self):
        self.need("bash")
        script = os.path.join(self.folder, "tarn.bash")
        with open(script, "w", encoding="utf-8") as file:
            file.write(manual("bash"))
        asked = f". {script}; " + "".join(f'_tarn_verb {verb}; echo "$options"; ' for verb in self.verbs)
        lines = subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        for verb, line in zip(self.verbs, lines, strict=True):
            self.assertEqual(set(line.split()), self.options_of(verb), verb)

    def test_zsh(self):
        text = manual("zsh")
        cases = dict(re.findall(r"(?m)^    ([a-z]+)\)\n((?:      .*\n(?:        .*\n)*))", text))
        for verb in self.verbs:
            found = set()
            for spec in re.findall(r"(?m)^ +'[^']*'(\{[^}]*\}|--?[a-zA-Z-]+[=+]?)'\[", cases[verb]):
                found |= {name.rstrip("=+") for name in spec.strip("{}").split(",")}
            self.assertEqual(found, self.options_of(verb), verb)

    def test_fish(self):
        found = {verb: set() for verb in self.verbs}
        for verb, rest in re.findall(r"(?m)^complete -c tarn -n '__tarn_at ([a-z]+)'(.*)$", manual("fish")):
            names = rest.split(" -d ")[0]
            if verb in found:
                found[verb] |= {"--" + name for name in re.findall(r" -l (\S+)", names)}
                found[verb] |= {"-" + name for name in re.findall(r" -s (\S)", names)}
        for verb in self.verbs:
            self.assertEqual(found[verb], self.options_of(verb), verb)

    def test_the_command_accepts_these_options_and_no_others(self):
        """An option with a value is refused without one, a flag with one; the help accepts neither."""
        for verb, about in self.verbs.items():
            self.assertIn("unknown option '--no-such-thing'", tarn(verb, "--no-such-thing").stderr)
            for option in about["options"]:
                for name in option["names"]:
                    if option["value"]:
                        self.assertIn(f"{name} needs a value", tarn(verb, name).stderr)
                    elif name.startswith("--"):
                        self.assertIn(f"{name} takes no value", tarn(verb, f"{name}=x").stderr)

    def test_exit_codes(self):
        with open(os.path.join(ROOT, "docs/reference/exit-codes.md"), encoding="utf-8") as file:
            self.assertEqual(file.read(), manual("exit-codes"),
                             "make it again: tarn --print-manual exit-codes >docs/reference/exit-codes.md")
        for verb, about in self.verbs.items():
            codes = [one["code"] for one in about["exits"]]
            self.assertEqual(len(codes), len(set(codes)), verb)
            self.assertIn(str(about["usage_exit"]), codes, verb)
            self.assertEqual(tarn(verb, "--no-such-thing").returncode, about["usage_exit"], verb)

    def test_all_files_at_once(self):
        folder = os.path.join(self.folder, "manual")
        self.assertEqual(tarn("--print-manual", "files", folder).stderr, "")
        made = sorted(os.path.relpath(os.path.join(where, name), folder)
                      for where, _, names in os.walk(folder) for name in names)
        pages = ["man1/tarn.1", *(f"man1/tarn-{verb}.1" for verb in self.verbs)]
        self.assertEqual(made, sorted(["_tarn", "tarn.bash", "tarn.fish", *pages]))

    def test_unknown_forms(self):
        for words in ([], ["pdf"], ["man"], ["man", "nothing"], ["bash", "more"]):
            self.assert_refused(tarn("--print-manual", *words), 2, "--print-manual")


class manual_readers(Manual):
    """The programs that show manual pages find nothing to complain about."""

    def pages(self):
        tarn("--print-manual", "files", self.folder)
        folder = os.path.join(self.folder, "man1")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

    def complaints(self, *words):
        return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                              env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})

    def test_groff(self):
        self.need("groff")
        for page in self.pages():
            self.assertEqual(self.complaints("groff", "-ww", "-z", "-man", "-Tutf8", page).stderr, "")

    def test_mandoc(self):
        self.need("mandoc")
        for page in self.pages():
            found = self.complaints("mandoc", "-T", "lint", page)
            self.assertEqual(found.stdout + found.stderr, "")

    def test_man(self):
        self.need("man")
        for page in self.pages():
            found = self.complaints("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page)
            self.assertEqual((found.returncode, found.stderr), (0, ""))


def typed_in(words, line, variables, folder, seconds=10):
    """What an interactive shell shows after `line` and the Tab key, without escape sequences."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(words[0], words, {**os.environ, "TERM": "dumb", "PS1": "ready> ", **variables})
    shown = b""

    def read_until(enough):
        nonlocal shown
        end = time.monotonic() + seconds
        while time.monotonic() < end and not enough():
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    shown += os.read(terminal, 65536)
                except OSError:
                    return
    read_until(lambda: b"ready> " in shown)
    for setup in variables.get("SETUP", "").splitlines():
        before = shown.count(b"ready> ")
        os.write(terminal, setup.encode() + b"\n")
        read_until(lambda before=before: shown.count(b"ready> ") > before)
    shown = b""
    os.write(terminal, line.encode() + b"\t")
    last = [0, time.monotonic()]

    def is_quiet():
        if len(shown) != last[0]:
            last[:] = [len(shown), time.monotonic()]
        return len(shown) > len(line) and time.monotonic() - last[1] > 0.5
    read_until(is_quiet)
    os.close(terminal)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode(errors="replace"))


class Shells(Manual):
    """The same questions to each shell. `ask` returns what it would offer for the last word of a line."""

    def setUp(self):
        super().setUp()
        tarn("--print-manual", "files", self.folder)
        for name in ("a.prof", "with blank.prof", "other.txt", "plan.json"):
            self.write(name, "", 0o644)
        os.mkdir(os.path.join(self.folder, "deep"))

    def ask(self, lines):
        raise NotImplementedError

    def check(self):
        options = sorted(name for name in self.options_of("profile") if name.startswith("--"))
        questions = {
            "tarn pro": {"profile", "prove"},
            "tarn help opt": {"options"},
            "tarn profile --mode ": {"sample", "full", "faults"},
            "tarn profile --mode=fu": {"full"},
            "tarn profile --quiet --mo": {"--mode"},
            "tarn sites --sort ma": {"malloc"},
            "tarn sites --color al": {"always"},
            "tarn apply pl": {"plan.json"},
            "tarn sites wi": {"with blank.prof"},
            "tarn report --output oth": {"other.txt"},
            "tarn profile --debug-path de": {"deep"},
        }
        answers = self.ask([*questions, "tarn profile --", "tarn sites ", "tarn run -- tru", "tarn run tru",
                            "tarn apply plan.json tru", "tarn cost --watch -- tru", "tarn run -- ls --mo",
                            f"tarn attach {str(os.getpid())[:-1]}"])
        answers = [{re.sub(r"^--[a-z-]+=", "", one).rstrip("/ ").replace("\\", "") for one in answer} for answer in answers]
        for (line, expected), answer in zip(questions.items(), answers):
            self.assertEqual(answer, expected, line)
        profile, sites, *programs, after_program, process = answers[len(questions):]
        self.assertEqual(sorted(profile), options)
        self.assertTrue({"a.prof", "with blank.prof", "deep"} <= sites, sites)
        self.assertFalse({"other.txt", "plan.json"} & sites, sites)
        for line, answer in zip(("run --", "run", "apply plan.json", "cost --watch --"), programs, strict=True):
            self.assertIn("true", answer, line)
        self.assertNotIn("--mode", after_program)
        self.assertIn(str(os.getpid()), process)


class manual_bash(Shells):
    def ask(self, lines):
        script = [f". {shlex.quote(self.folder)}/tarn.bash", "complete -p tarn", 'ask() { COMP_WORDS=("$@"); '
                  'COMP_CWORD=$(($# - 1)); COMPREPLY=(); _tarn; printf "%s\\n" "${COMPREPLY[@]}" --end--; }']
        for line in lines:
            # As readline splits a line: at blanks, and around "=".
            words = re.findall(r"=|[^ =]+", line) + ([""] if line.endswith(" ") else [])
            script.append("ask " + " ".join(shlex.quote(word) for word in words))
        result = subprocess.run(["bash", "--norc", "-c", "\n".join(script)], capture_output=True, text=True,
                                check=False, cwd=self.folder)
        self.assertEqual(result.stderr, "")
        first, _, rest = result.stdout.partition("\n")
        self.assertEqual(first, "complete -F _tarn tarn")
        return [{one for one in answer.split("\n") if one} for answer in rest.split("--end--\n")[:-1]]

    def test_bash(self):
        self.need("bash")
        self.check()

    def test_bash_with_the_tab_key(self):
        self.need("bash")
        setup = f". {self.folder}/tarn.bash"
        shown = typed_in(["bash", "--norc", "--noprofile", "-i"], "tarn profile --mode=fu", {"SETUP": setup}, self.folder)
        self.assertIn("--mode=full", shown)
        shown = typed_in(["bash", "--norc", "--noprofile", "-i"], "tarn sites wi", {"SETUP": setup}, self.folder)
        self.assertIn("with\\ blank.prof", shown)


class manual_fish(Shells):
    def ask(self, lines):
        script = [f"source {self.folder}/tarn.fish"]
        for line in lines:
            script.append(f"complete -C {shlex.quote(line)}; echo --end--")
        home = os.path.join(self.folder, ".home")
        os.makedirs(home, exist_ok=True)
        result = subprocess.run(["fish", "--no-config", "-c", "\n".join(script)], capture_output=True, text=True, check=False,
                                cwd=self.folder, env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home})
        self.assertEqual(result.stderr, "")
        return [{one.split("\t")[0] for one in answer.split("\n") if one}
                for answer in result.stdout.split("--end--\n")[:-1]]

    def test_fish(self):
        self.need("fish")
        self.check()


class manual_zsh(Shells):
    # compadd as zsh's own completion calls it, but it prints the matches that fit what is typed.
    PRINT = r"""
autoload -Uz compinit; compinit -u -D
zmodload zsh/zutil
zstyle ':completion:*' list-colors ''
_tarn_test_list() {
  compadd() {
    local -a kept
    builtin compadd -A kept "$@"
    local word prefix= suffix=
    for word in $kept; do print -r -- "match:$word" >>$ANSWERS; done
    builtin compadd "$@"
  }
  _main_complete
  unfunction compadd
  compstate[insert]=
  compstate[list]=
  print end >>$ANSWERS
}
zle -C _tarn_test_list complete-word _tarn_test_list
bindkey '^I' _tarn_test_list
PS1='ready> '
"""

    def ask(self, lines):
        rc = self.write("rc.zsh", f"fpath=({self.folder} $fpath)\n" + self.PRINT, 0o644)
        answers = []
        child, terminal = pty.fork()
        target = os.path.join(self.folder, ".answers")
        if child == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "PS1": "start> ", "ANSWERS": target})
        shown = b""

        def read_until(text, count):
            nonlocal shown
            end = time.monotonic() + 20
            while time.monotonic() < end and shown.count(text) < count:
                if select.select([terminal], [], [], 0.1)[0]:
                    shown += os.read(terminal, 65536)
            self.assertGreaterEqual(shown.count(text), count, shown[-500:])
        read_until(b"start> ", 1)
        os.write(terminal, f". {rc}\n".encode())
        read_until(b"ready> ", 1)
        for number, line in enumerate(lines):
            with open(target, "w", encoding="utf-8"):
                pass
            os.write(terminal, line.encode() + b"\t")
            self.wait_for_end(target)
            # ^U and a command of its own end the line whose completion was asked for.
            os.write(terminal, b"\x15print done-$((" + str(number).encode() + b"+1000))\n")
            read_until(f"done-{number + 1000}".encode(), 1)
            with open(target, encoding="utf-8") as file:
                answers.append({one[len("match:"):] for one in file.read().splitlines() if one.startswith("match:")})
        os.close(terminal)
        os.kill(child, 9)
        os.waitpid(child, 0)
        return answers

    def wait_for_end(self, path):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with open(path, encoding="utf-8") as file:
                if "end\n" in file.read():
                    return
            time.sleep(0.02)
        self.fail("zsh completed nothing in 20 seconds")

    def test_zsh(self):
        self.need("zsh")
        self.check()

