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
import time

from harness import Base, settings, tarn

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
        listed = re.findall(r"(?m)^  ([a-z-]+) {2,}", tarn("help").stdout.split("Examples:")[0])
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

    def test_completion(self):
        for verb in self.verbs:
            kind, *words = tarn("__complete", verb, "--").stdout.splitlines()
            self.assertEqual(kind, "words")
            self.assertEqual({word.split("\t")[0] for word in words}, self.options_of(verb), verb)

    def test_completion_distinguishes_files_programs_and_nothing(self):
        for words, answer in ((["run", "--plan", ""], "files"), (["show", ""], "files .prof"), (["profile", "--debug-path", ""], "folders"),
                              (["run", ""], "program 2"), (["run", "--", "ls", "-"], "program 3"), (["top", "x"], "program 2"),
                              (["prove", "--load", ""], ""), (["diff", "a", "--", "b"], "files .prof")):
            self.assertEqual(tarn("__complete", *words).stdout.splitlines()[0], answer, words)

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
        explained = re.findall(r"^\| (\w+) \|", self.read(os.path.join(ROOT, "docs/reference/exit-codes.md")), re.M)
        for verb, about in self.verbs.items():
            codes = [one["code"] for one in about["exits"]]
            self.assertEqual(len(codes), len(set(codes)), verb)
            self.assertLessEqual(set(codes), set(explained), verb)
            self.assertIn(str(about["usage_exit"]), codes, verb)
            self.assertEqual(tarn(verb, "--no-such-thing").returncode, about["usage_exit"], verb)

    def test_all_files_at_once(self):
        folder = self.path("manual")
        self.assertEqual(tarn("--print-manual", "files", folder).stderr, "")
        made = sorted(os.path.relpath(os.path.join(where, name), folder)
                      for where, _, names in os.walk(folder) for name in names)
        pages = ["man1/tarn.1", *(f"man1/tarn-{verb}.1" for verb in self.verbs)]
        self.assertEqual(made, sorted(pages))

    def test_unknown_forms(self):
        for words in ([], ["pdf"], ["man"], ["man", "nothing"], ["json", "more"]):
            self.assert_refused(tarn("--print-manual", *words), 2, "--print-manual")


# What an option means, by its names as the help shows them, and its value. Each meaning has one spelling in all commands.
# A new option takes the spelling of its meaning, or is a meaning of its own and gets a row.
MEANINGS = {
    "the help": ("-h,--help", ""), "colour": ("--color", "WHEN"), "the version": ("-V,--version", ""), "JSON": ("--json", ""),
    # what is shown, and how much of it
    "rows to show": ("-n,--rows", "N"), "the metric": ("-m,--metric", "METRIC"), "a text in names": ("-f,--filter", "TEXT"),
    "the least share": ("--min", "PERCENT"), "levels of a tree": ("--depth", "N"), "the view of a profile": ("--by", "VIEW"),
    "callers below": ("--inverted", ""), "whole names": ("--full-names", ""), "the time of a reading": ("--at", "WHEN"),
    "all readings": ("--over-time", ""), "reachable blocks": ("--reachable", ""), "known leaks": ("--suppressions", "FILE"),
    "a process of a merged profile": ("--process", "PID|NAME"), "a limit of a change": ("--fail-if", "EXPR"),
    "options in effect": ("--options", ""), "one row": ("--once", ""),
    # how often, how long
    "repetitions": ("-r,--rounds", "N"), "rounds that do not count": ("-w,--warmup", "N"), "how long at most": ("--for", "SECONDS"),
    "the limit of one run": ("--timeout", "SECONDS"), "time between rows": ("--interval", "SECONDS"),
    "time between updates of the file": ("--checkpoint", "SECONDS"), "the random order": ("--seed", "N"),
    # what is measured
    "a further allocator": ("--malloc", "NAME=LIBRARY"), "only these": ("--only", "NAME,..."), "memory touched before": ("--touch", "MIB"), "single calls": ("--tail", ""),
    "page faults live": ("--watch", ""), "the plan": ("--plan", "FILE"), "one piece of advice": ("--number", "N"),
    "the result is not stored": ("--no-keep", ""),
    "a foreign file is trusted": ("--trust-file", ""),
    # the program that is started
    "its standard input": ("--stdin", "FILE"), "its output is shown": ("--show-output", ""), "its output goes to a file": ("--program-output", "FILE"),
    "any end is success": ("-i,--ignore-failure", ""), "its load": ("--load", "COMMAND"), "another build of it": ("--with-build", "COMMAND"),
    "ready by port": ("--ready-port", "PORT"), "ready by command": ("--ready-command", "COMMAND"), "figures at its end": ("-s,--stats", ""), "what it held when it was killed": ("--black-box", "DIR"),
    # recording
    "what is recorded": ("--mode", "MODE"), "distance of samples": ("--sample", "SIZE"), "no single events": ("--no-events", ""),
    "where names are": ("--debug-path", "FOLDER"), "recorded later": ("--paused", ""), "proven at once": ("--prove", ""),
    "end the recording": ("--stop", ""), "what is known so far": ("--dump", ""), "no messages": ("-q,--quiet", ""),
    # what is written
    "the file": ("-o,--output", "FILE"), "a browser": ("--open", ""), "no source lines": ("--no-source", ""), "an earlier profile": ("--before", "FILE"), "for pprof": ("--pprof", ""),
    "for flame graphs": ("--collapsed", ""), "for heaptrack": ("--heaptrack", ""), "for Prometheus": ("--prometheus", ""),
    "for SQL": ("--sqlite", ""),
    # a running process
    "give memory back": ("--trim", ""), "what stays": ("--keep", "SIZE"), "figures": ("--metrics", ""), "own samples": ("--samples", "VIEW"),
    "the address": ("--listen", "ADDRESS:PORT"), "the server's name": ("--host-name", "NAME"),
    "the store of profiles": ("--push", "STORE=URL"), "time between its profiles": ("--push-interval", "SECONDS"),
    "their labels": ("--push-label", "NAME=VALUE"), "its headers": ("--push-headers", "FILE"), "whom it is signed by": ("--push-ca", "FILE"),
    "an agent": ("--mcp", ""),
}
# Words that earlier commands, or other tools, have for one of these meanings: an option of this name would be a second spelling.
OTHER_WORDS = {
    "rows to show": "--top --limit --most --max --count --lines", "the metric": "--sort --order --key", "the least share": "--least --threshold",
    "repetitions": "--runs --repeat --iterations --times --samples-count", "how long at most": "--duration --seconds --limit --time",
    "a further allocator": "--with --allocator --add", "only these": "--ways --allocators --select --choose", "its standard input": "--input",
    "the file": "--out --file --to", "JSON": "--format", "a process of a merged profile": "--pid", "time between rows": "--every --delay",
    "no messages": "--silent", "its load": "--load-command", "the plan": "--apply",
}


class manual_spellings(Manual):
    """An option that means the same has the same name, letter and value in every command."""

    def test_each_meaning_has_one_spelling(self):
        spellings = {names: (meaning, value) for meaning, (names, value) in MEANINGS.items()}
        self.assertEqual(len(spellings), len(MEANINGS), "two meanings have the same spelling")
        second = {word: meaning for meaning, words in OTHER_WORDS.items() for word in words.split()}
        used = set()
        for verb, about in self.verbs.items():
            for option in about["options"]:
                if option["positional"]:
                    continue
                names = ",".join(sorted(option["names"], key=len))
                for name in option["names"]:
                    self.assertNotIn(name, second, f"tarn {verb} {name}: the name for '{second.get(name)}' is another one")
                self.assertIn(names, spellings, f"tarn {verb} {names}: it has no meaning in this test, or the meaning has another spelling")
                self.assertEqual(option["value"], spellings[names][1], f"tarn {verb} {names}")
                used.add(names)
        self.assertEqual(set(spellings) - used, set(), "no command has these")

    def test_each_letter_and_each_name_has_one_meaning(self):
        parts = [part for names, _ in MEANINGS.values() for part in names.split(",")]
        self.assertEqual(len(parts), len(set(parts)))
        self.assertEqual(set(OTHER_WORDS) - set(MEANINGS), set())
        self.assertFalse({word for words in OTHER_WORDS.values() for word in words.split()} & set(parts))


class manual_readers(Manual):
    """The programs that show manual pages find nothing to complain about."""

    def pages(self):
        tarn("--print-manual", "files", self.folder)
        folder = self.path("man1")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

    def complaints(self, *words):
        return self.execute(*words, env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})

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
        self.scripts = os.path.join(ROOT, "cli", "manual", "completions")
        self.search = os.path.dirname(os.path.abspath(settings.tarn)) + ":" + os.environ["PATH"]  # the scripts ask tarn
        for name in ("a.prof", "with blank.prof", "other.txt", "plan.json"):
            self.write(name, "", 0o644)
        os.mkdir(self.path("deep"))

    def ask(self, lines):
        raise NotImplementedError

    def check(self):
        options = sorted(name for name in self.options_of("profile") if name.startswith("--"))
        questions = {
            "tarn pro": {"profile", "prove"},
            "tarn help exp": {"export"},
            "tarn profile --mode ": {"sample", "full", "faults"},
            "tarn profile --mode=fu": {"full"},
            "tarn profile --quiet --mo": {"--mode"},
            "tarn show --metric ma": {"malloc"},
            "tarn show --color al": {"always"},
            "tarn run --plan pl": {"plan.json"},
            "tarn show wi": {"with blank.prof"},
            "tarn report --output oth": {"other.txt"},
            "tarn profile --debug-path de": {"deep"},
        }
        answers = self.ask([*questions, "tarn profile --", "tarn show ", "tarn run -- tru", "tarn run tru",
                            "tarn run --plan plan.json tru", "tarn cost --watch -- tru", "tarn run -- ls --mo",
                            f"tarn attach {str(os.getpid())[:-1]}"])
        answers = [{re.sub(r"^--[a-z-]+=", "", one).rstrip("/ ").replace("\\", "") for one in answer} for answer in answers]
        for (line, expected), answer in zip(questions.items(), answers):
            self.assertEqual(answer, expected, line)
        profile, sites, *programs, after_program, process = answers[len(questions):]
        self.assertEqual(sorted(profile), options)
        self.assertTrue({"a.prof", "with blank.prof", "deep"} <= sites, sites)
        self.assertFalse({"other.txt", "plan.json"} & sites, sites)
        for line, answer in zip(("run --", "run", "run --plan plan.json", "cost --watch --"), programs, strict=True):
            self.assertIn("true", answer, line)
        self.assertNotIn("--mode", after_program)
        self.assertIn(str(os.getpid()), process)


class manual_bash(Shells):
    def ask(self, lines):
        script = [f". {shlex.quote(self.scripts)}/tarn.bash", "complete -p tarn", 'ask() { COMP_WORDS=("$@"); '
                  'COMP_CWORD=$(($# - 1)); COMPREPLY=(); _tarn; printf "%s\\n" "${COMPREPLY[@]}" --end--; }']
        for line in lines:
            # As readline splits a line: at blanks, and around "=".
            words = re.findall(r"=|[^ =]+", line) + ([""] if line.endswith(" ") else [])
            script.append("ask " + " ".join(shlex.quote(word) for word in words))
        result = self.execute("bash", "--norc", "-c", "\n".join(script), env={**os.environ, "PATH": self.search})
        self.assertEqual(result.stderr, "")
        first, _, rest = result.stdout.partition("\n")
        self.assertEqual(first, "complete -F _tarn tarn")
        return [{one for one in answer.split("\n") if one} for answer in rest.split("--end--\n")[:-1]]

    def test_bash(self):
        self.need("bash")
        self.check()

    def test_what_is_typed_is_not_run(self):
        self.need("bash")
        script = f". {shlex.quote(self.scripts)}/tarn.bash; COMP_WORDS=(tarn show '--$(touch taken)=') COMP_CWORD=2; _tarn"
        self.execute("bash", "--norc", "-c", script, code=0, env={**os.environ, "PATH": self.search})
        self.assertFalse(os.path.exists(self.path("taken")))

    def test_bash_with_the_tab_key(self):
        self.need("bash")
        setup = f". {shlex.quote(self.scripts)}/tarn.bash"
        shown = typed_in(["bash", "--norc", "--noprofile", "-i"], "tarn profile --mode=fu", {"SETUP": setup, "PATH": self.search}, self.folder)
        self.assertIn("--mode=full", shown)
        shown = typed_in(["bash", "--norc", "--noprofile", "-i"], "tarn show wi", {"SETUP": setup, "PATH": self.search}, self.folder)
        self.assertIn("with\\ blank.prof", shown)


class manual_fish(Shells):
    def ask(self, lines):
        script = [f"source {shlex.quote(self.scripts)}/tarn.fish"]
        for line in lines:
            script.append(f"complete -C {shlex.quote(line)}; echo --end--")
        home = self.path(".home")
        os.makedirs(home, exist_ok=True)
        result = self.execute("fish", "--no-config", "-c", "\n".join(script),
                              env={**os.environ, "PATH": self.search, "HOME": home, "XDG_CONFIG_HOME": home})
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
        rc = self.write("rc.zsh", f"fpath=({shlex.quote(self.scripts)} $fpath)\n" + self.PRINT, 0o644)
        answers = []
        child, terminal = pty.fork()
        target = self.path(".answers")
        if child == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "PATH": self.search, "TERM": "dumb", "PS1": "start> ", "ANSWERS": target})
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

