# SPDX-License-Identifier: MIT
"""End-to-end: hostile processes, names with control characters and planted symbolic links do no harm."""
import json
import os
import re
import subprocess

from harness import Base, environment, settings, tarn

NAME = "ev\x1b]0;title\x07il\n9.9 s forged\x7f"
# A control character (except tab and newline), or a character that changes the direction of text.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def run(*words):
    return subprocess.run([settings.tarn, *words], capture_output=True, stdin=subprocess.DEVNULL, env=environment(),
                          timeout=60, check=False)


class hostile(Base):
    def assert_safe(self, output, what):
        text = output.decode("utf-8")  # raises if it is not UTF-8
        found = UNSAFE.search(text)
        self.assertIsNone(found, f"{what}: {text[max(0, found.start() - 60):found.end() + 60]!r}" if found else "")
        self.assertNotRegex(text, r"(?m)^\W*(9\.9 s )?forged", what)

    def test_names_of_files_and_arguments(self):
        missing = os.path.join(self.folder, NAME)
        for words in (["show", missing], ["show", "--by", "tree", missing], ["diff", missing, missing], ["report", missing],
                      ["advise", missing], ["export", "--json", missing], ["run", "--", missing],
                      ["compare", "--", missing], ["profile", "--", missing], ["run", "--plan", missing, "--", "true"],
                      ["top", missing], [NAME], ["show", f"--{NAME}"], ["profile", "-o", f"{missing}/x", "--", "true"]):
            result = run(*words)
            self.assertNotEqual(result.returncode, 0)
            self.assert_safe(result.stdout + result.stderr, words[:1])

    def test_a_program_whose_name_has_control_characters(self):
        program = self.write(NAME, "#!/bin/sh\n/bin/ls / >/dev/null\n")
        for words in (["profile", "-o", os.path.join(self.folder, "p.prof"), "--", program, NAME],
                      ["compare", "-r", "1", "-w", "0", "--only", "system", "--", program, NAME]):
            result = run(*words)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assert_safe(result.stdout + result.stderr, words[:1])

    def test_planted_links(self):
        victim = self.write("victim", "precious\n", 0o644)
        # The names of child processes' files are predictable: the link is there before the file.
        shell = "for p in $(seq $$ $(($$ + 40))); do ln -s {0} {1}-$p.prof; done; /bin/ls -R /etc; /bin/true"
        base = os.path.join(self.folder, "out")
        result = run("profile", "--mode", "full", "-o", base + ".prof", "--", "sh", "-c",
                     shell.format(victim, base) + " > /dev/null")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(victim, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious\n")
        made = [entry for entry in os.scandir(self.folder) if entry.name.endswith(".prof") and not entry.is_symlink()]
        self.assertTrue(made)
        for entry in made:
            self.assertEqual(entry.stat().st_mode & 0o077, 0, entry.name)

    def test_a_link_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make another user's link")
        victim = self.write("victim", "precious\n", 0o644)
        link = os.path.join(self.folder, "out.prof")
        os.symlink(victim, link)
        os.chown(link, 65534, 65534, follow_symlinks=False)
        result = run("profile", "-o", link, "--", "true")
        self.assertEqual(result.returncode, 125, result.stderr)
        with open(victim, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious\n")

    def test_a_process_that_attacks_the_others(self):
        user = 65534 if os.geteuid() == 0 else os.geteuid()
        for mode in ("full", "sample"):
            profile = os.path.join(self.folder, f"{mode}.prof")
            result = run("profile", "--mode", mode, "-o", profile, "--", settings.hostile_session, str(user))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout, b"child 0\n", result.stderr)
            self.assertEqual(run("show", profile).returncode, 0)
            known = json.loads(run("export", "--json", profile).stdout)
            self.assertEqual(known["lost_events"], 0)
            self.assertFalse([one for one in known["meta"]["refused"] if "overwritten" in one])
            others = [one for one in os.listdir(self.folder) if one.startswith(f"{mode}-")]
            self.assertLessEqual(len(others), 17, "one process used more than its part of the session's files")
            if mode == "full":
                self.assertLess(known["totals"]["allocations"], 80100 + (0 if os.geteuid() == 0 else 3000))
                counts = [one["figures"]["allocations"] for one in known["sites"]]
                most = sorted((one for one in counts if one >= 1000), reverse=True)
                # Without root the second child has its parent's user, and its figures are added to the parent's.
                self.assertEqual(most, [40000, 20000, 20000] + ([] if os.geteuid() == 0 else [3000]))
