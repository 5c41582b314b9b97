# SPDX-License-Identifier: MIT
"""Mistakes that people make, and what tarn answers to each: the exit code and the whole message on standard error. The test
(mistakes_test.py) tries each of them.

In commands and messages {folder} stands for an empty folder with the files that `needs` names, which is the current folder
while the command runs."""
from dataclasses import dataclass


@dataclass
class Mistake:
    title: str         # what was done
    command: str       # a line of a shell
    code: int
    message: str       # standard error
    needs: str = ""    # names of files and other preparations (mistakes_test.py)
    remark: str = ""   # what else is shown


SECTIONS = {
    "The command line": [
        Mistake("a command is misspelt", "tarn comapre -- ls", 2, """\
tarn: unknown command 'comapre'
      Did you mean 'tarn compare'?
"""),
        Mistake("no command has a similar name", "tarn frobnicate", 2, """\
tarn: unknown command 'frobnicate'
      All commands: tarn help
"""),
        Mistake("the word is a command of other tools", "tarn version", 2, """\
tarn: unknown command 'version'
      Print the version: tarn --version
"""),
        Mistake("the same", "tarn record -- ls", 2, """\
tarn: unknown command 'record'
      Record a profile: tarn profile -- PROGRAM ARG...
"""),
        Mistake("an option stands before the command", "tarn --stats run -- ls", 2, """\
tarn: unknown option '--stats' before the command
      Options follow the command: tarn COMMAND OPTIONS. All commands: tarn help
"""),
        Mistake("an option is misspelt", "tarn compare --onyl tarn -- ls", 2, """\
tarn: unknown option '--onyl'
      Did you mean '--only'? All options: tarn compare --help
"""),
        Mistake("an option is misspelt; the command ends as its program does, so the code is 125",
                "tarn run --stat -- ls", 125, """\
tarn: unknown option '--stat'
      Did you mean '--stats'? All options: tarn run --help
"""),
        Mistake("one dash is missing", "tarn run -stats -- ls", 125, """\
tarn: unknown option '-stats'
      Did you mean '--stats'? All options: tarn run --help
"""),
        Mistake("an option has no value", "tarn compare --rounds -- ls", 2, """\
tarn: --rounds needs a value
      --rounds N: Number of timed rounds (3 to 10, as many as fit into about a minute)
"""),
        Mistake("an option whose value is a list has none", "tarn compare --only -- ls", 2, """\
tarn: --only needs a value
      --only NAME,...: Measure only these (of system, tarn, jemalloc, mimalloc, tcmalloc, ...)
"""),
        Mistake("a flag has a value", "tarn show --json=yes x.prof", 2, """\
tarn: --json takes no value
      See: tarn show --help
"""),
        Mistake("a word stands in place of a number", "tarn compare --rounds many -- ls", 2, """\
tarn: --rounds: must be a whole number from 1 to 200, not 'many'
      See: tarn compare --help
"""),
        Mistake("a number is negative", "tarn show -n -3 x.prof", 2, """\
tarn: --rows: must be a whole number of at least 0, not '-3'
      See: tarn show --help
"""),
        Mistake("a number is out of range", "tarn profile --checkpoint 0 -- ls", 125, """\
tarn: --checkpoint: must be a number from 0.1 to 3600, not '0'
      See: tarn profile --help
"""),
        Mistake("a size has a wrong unit", "tarn profile --sample 1T -- ls", 125, """\
tarn: --sample: must be a size from 1 KiB to 1 GiB, not '1T'
      See: tarn profile --help
"""),
        Mistake("a size is too small", "tarn cost 5", 2, """\
tarn: '5': too small for this experiment
      Use at least 64K: smaller blocks come from the allocator's caches.
"""),
        Mistake("a value is no word of the list", "tarn profile --mode ful -- ls", 125, """\
tarn: --mode: must be sample, full or faults, not 'ful'
      Did you mean 'full'? See: tarn profile --help
"""),
        Mistake("a metric is misspelt", "tarn show --metric costt x.prof", 2, """\
tarn: --metric: must be cost, malloc, hidden, faults, allocations, bytes, live, live_bytes or peak, not 'costt'
      Did you mean 'cost'? See: tarn show --help
"""),
        Mistake("no program is given", "tarn run", 125, """\
tarn: no program given
      For example: tarn run -- ls -l
"""),
        Mistake("no profile is given", "tarn show", 2, """\
tarn: PROFILE is missing
      Usage: tarn show [--by VIEW] [OPTIONS] PROFILE
"""),
        Mistake("one word too many", "tarn show x.prof y.prof", 2, """\
tarn: unexpected word 'y.prof'
      Usage: tarn show [--by VIEW] [OPTIONS] PROFILE
"""),
        Mistake("one word too many for the help", "tarn help run profile", 2, """\
tarn: unexpected word 'profile'
      Usage: tarn help [COMMAND]
"""),
        Mistake("two options exclude each other", "tarn control --trim --metrics 4711", 2, """\
tarn: --trim and --metrics cannot be used together
      Omit one of them.
"""),
        Mistake("an option needs another one", "tarn cost --interval 2", 2, """\
tarn: --interval requires --watch
      See: tarn cost --help
"""),
        Mistake("an option belongs to another view", "tarn show --by rss --depth 3 x.prof", 2, """\
tarn: --depth requires --by tree
      See: tarn show --help
"""),
        Mistake("one side of a comparison is missing", "tarn diff x.prof", 2, """\
tarn: diff needs two files, or two groups of files separated by --, not one file
      One file each: tarn diff BEFORE AFTER. Several: tarn diff [OPTIONS] BEFORE... -- AFTER...
"""),
        Mistake("a limit of diff is malformed", "tarn diff --fail-if 'cost+3%' x.prof y.prof", 2, """\
tarn: --fail-if 'cost+3%' is no limit: it needs > or <, as in cost>+5%
      For example: --fail-if 'cost>+5%', --fail-if 'peak>+64M', --fail-if 'site.bytes>+20%'
"""),
        Mistake("the format of an export is missing", "tarn export x.prof", 2, """\
tarn: no format given
      Give one of --pprof, --collapsed, --heaptrack, --json, --sqlite and --prometheus.
"""),
        Mistake("an allocator is misspelt", "tarn compare --only systm -- true", 2, """\
tarn: --only systm: no allocator has this name
      Did you mean 'system'?
"""),
    ],
    "Files": [
        Mistake("the profile does not exist", "tarn show gone.prof", 125, """\
tarn: the profile gone.prof cannot be opened: No such file or directory
      tarn profile -- PROGRAM makes one.
"""),
        Mistake("the file is no profile", "tarn show notes.txt", 125, """\
tarn: notes.txt is not a profile of tarn
      tarn profile -- PROGRAM makes one.
""", needs="notes.txt"),
        Mistake("the profile is empty", "tarn show --by tree empty.prof", 125, """\
tarn: the profile empty.prof is empty: the profiler was stopped before it wrote anything
      tarn profile -- PROGRAM makes one.
""", needs="empty.prof"),
        Mistake("the profile is a folder", "tarn report .", 125, """\
tarn: . is not a regular file
      Copy the profile to a file first.
"""),
        Mistake("the profile may not be read", "tarn show secret.prof", 125, """\
tarn: the profile secret.prof cannot be opened: Permission denied
      Give yourself the right to read it.
""", needs="secret.prof nobody"),
        Mistake("the profile is damaged", "tarn show cut.prof", 4, """\
tarn: cut.prof is damaged: the file ends too early after 34281 of 36310 bytes; what comes before it is shown
…
""", needs="cut.prof",
                remark="What could be read is shown on standard output."),
        Mistake("a profile of samples is searched for leaks", "tarn show --by leaks x.prof", 125, """\
tarn: which of these blocks were reachable is not known: mode sample records only some of the blocks
      Record every block, from the program's start: tarn profile --mode full -- PROGRAM
""", needs="x.prof",
                remark="The blocks that were live at the end are shown on standard output."),
        Mistake("the page would replace a file that is no report", "tarn report x.prof", 2, """\
tarn: x.html exists and is not a report of tarn
      Give another name, or this name to overwrite it: -o FILE
""", needs="x.prof x.html"),
        Mistake("the folder of the output does not exist", "tarn report x.prof -o gone/x.html", 125, """\
tarn: -o gone/x.html: cannot be written: No such file or directory
      Give a file in a folder that you may write to. Nothing was done.
""", needs="x.prof"),
        Mistake("the folder of the profile does not exist", "tarn profile -o gone/x.prof -- true", 125, """\
tarn: gone/x.prof: cannot be written: No such file or directory
      Name another file: -o FILE
"""),
        Mistake("a profile is to go to standard output", "tarn profile -o - -- true", 125, """\
tarn: -o -: a profile is not written to standard output
      Give a file name: -o FILE.prof
"""),
        Mistake("the merged profile is one of its parts", "tarn merge x.prof y.prof -o x.prof", 2, """\
tarn: -o x.prof: this is one of the files to merge
      Give another file name.
""", needs="x.prof y.prof"),
        Mistake("the disk is full", "tarn show x.prof >/dev/full", 125, """\
tarn: standard output: the output cannot be written completely: No space left on device
      Make room, or give another file name.
""", needs="x.prof"),
        Mistake("the reader of a pipe has ended", "tarn export --json x.prof | true", 141, "", needs="x.prof pipefail",
                remark="No message, as the reader had what it wanted. A shell that does not ignore SIGPIPE reports the same code."),
        Mistake("the file is no plan", "tarn run --plan plan.json -- true", 125, """\
tarn: plan.json: it is not a plan
      Write a new plan: tarn advise FILE --plan plan.json
""", needs="plan.json"),
        Mistake("a profile is given for its plan", "tarn run --plan x.prof -- true", 125, """\
tarn: x.prof: it is a profile, not a plan
      Write its plan: tarn advise x.prof --plan plan.json
""", needs="x.prof"),
        Mistake("the plan does not exist", "tarn prove --plan gone.json x.prof", 125, """\
tarn: gone.json: cannot be read: No such file or directory
      Write a plan by: tarn advise PROFILE --plan PLAN
"""),
        Mistake("a binary format is to go to the terminal", "tarn export --pprof x.prof", 2, """\
tarn: this format is binary and is not written to a terminal
      Give a file name: -o profile.pb.gz
""", needs="x.prof terminal"),
        Mistake("no browser is there", "tarn report x.prof --open", 125, """\
tarn: the page is written, but no browser could be opened (none is installed)
      Open it yourself: file://{folder}/x.html
""", needs="x.prof no-path"),
    ],
    "Programs": [
        Mistake("the program is misspelt", "tarn run -- serverr", 127, """\
tarn: program not found: serverr
      Did you mean 'server'? Otherwise check PATH, or give its path.
""", needs="server-in-path"),
        Mistake("the program is in the current folder only", "tarn run -- here", 127, """\
tarn: program not found: here
      A file with this name is in the current folder; to start it: ./here
""", needs="here"),
        Mistake("the path of the program is wrong", "tarn run -- ./gone", 127, """\
tarn: no such program: ./gone
      Check the path.
"""),
        Mistake("the program is not executable", "tarn run -- ./data", 126, """\
tarn: ./data is not executable: Permission denied
      If it is a program or script, allow it: chmod +x ./data
""", needs="data"),
        Mistake("a script names no interpreter", "tarn run -- ./script", 126, """\
tarn: ./script is neither a program nor a script that begins with '#!'
      Write '#!/bin/sh' into its first line, or start it by its interpreter: sh ./script
""", needs="script"),
        Mistake("a script has the line ends of Windows", "tarn run -- ./windows_script", 126, """\
tarn: the interpreter of ./windows_script, /bin/sh\\x0d, cannot be started: No such file or directory
      The script has Windows line ends; remove them.
""", needs="windows_script"),
        Mistake("the program is statically linked", "tarn run -- ./static", 125, """\
tarn: ./static is statically linked, so no library can be preloaded into it
      Link it with libtarn.a, or link it dynamically.
""", needs="static"),
        Mistake("the program is statically linked, and is to be recorded", "tarn profile -- ./static", 125, """\
tarn: ./static is statically linked, so no library can be preloaded into it
      Link it with libtarn.a, or link it dynamically. Or record only its page faults: tarn profile --mode faults -- \
PROGRAM ARG...
""", needs="static"),
        Mistake("the program is setuid", "tarn run -- ./setuid", 125, """\
tarn: ./setuid is setuid (it runs as another user), so the system ignores preloaded libraries
      Run a copy without that privilege, or link the program with tarn.
""", needs="setuid"),
        Mistake("the program is for another processor", "tarn run -- ./foreign", 125, """\
tarn: ./foreign is a program for 64-bit RISC-V, which tarn's library is not
      Use a build of the program for this machine.
""", needs="foreign"),
        Mistake("the program is linked with musl", "tarn run -- ./musl", 125, """\
tarn: ./musl is linked with musl, and this libtarn is built for glibc
      Link it with libtarn.a.
""", needs="musl"),
        Mistake("a library of the program is missing", "tarn run -- ./needy", 125, """\
tarn: ./needy cannot start: it needs libgone.so
      Install these libraries, or set LD_LIBRARY_PATH.
""", needs="needy"),
        Mistake("the program has a malloc of its own", "tarn run -- ./own", 125, """\
tarn: ./own contains its own malloc, which takes precedence over a preloaded one
      Build it without its own allocator, or link it with tarn.
""", needs="own"),
    ],
    "The system": [
        Mistake("tarn's library is not where TARN_LIBRARY says", "TARN_LIBRARY=/no/such.so tarn run -- true", 125, """\
tarn: /no/such.so (named by TARN_LIBRARY) cannot be read: No such file or directory
      Check the path and its permissions.
"""),
        Mistake("the process does not exist", "tarn attach 999999999", 125, """\
tarn: process 999999999 has ended, or does not exist
      List the processes: ps -e
"""),
        Mistake("the process does not exist", "tarn cost --watch 999999999", 125, """\
tarn: process 999999999 has ended, or does not exist
      List the processes: ps -e
"""),
        Mistake("a name stands in place of a process id", "tarn attach server", 2, """\
tarn: 'server' is not a process id
      Find the id by the program's name: pgrep NAME
"""),
        Mistake("the process is not being recorded", "tarn attach --stop $$", 125, """\
tarn: process N is not being recorded by this user
      Begin a recording: tarn attach N
""", needs="own-id"),
        Mistake("page faults may not be watched", "tarn profile --mode faults -- true", 125, """\
tarn: page faults cannot be seen: perf_event_open is forbidden here (Permission denied), as in most containers; start the \
container with --cap-add PERFMON, or outside of it
      What works on this system: tarn doctor
""", needs="no-perf-events"),
        Mistake("too few files may be open", "tarn run -- true", 125, """\
tarn: cannot make a pipe: Too many open files
      Raise the limit on open files: ulimit -n 1024
""", needs="few-files"),
        Mistake("an option of the library has a wrong unit", "TARN_DECAY_MS=5s tarn doctor --options", 0, """\
tarn: TARN_DECAY_MS=5s is not valid and is ignored; decay_ms takes milliseconds; 0: within 20 ms, -1: never, default 1000
""", needs="real-library",
                remark="The option keeps its default; the table on standard output shows it."),
    ],
}
