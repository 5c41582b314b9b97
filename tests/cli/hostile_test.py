# SPDX-License-Identifier: MIT
"""End-to-end: hostile processes and planted symbolic links do no harm. Names with control characters: foreign_test.py."""
import json
import os

from harness import Base, settings, tarn


class hostile(Base):
    def test_planted_links(self):
        victim = self.write("victim", "precious\n", 0o644)
        # The names of child processes' files are predictable: the link is there before the file.
        shell = "for p in $(seq $$ $(($$ + 40))); do ln -s {0} {1}-$p.prof; done; /bin/ls -R /etc; /bin/true"
        base = self.path("out")
        tarn("profile", "--mode", "full", "-o", base + ".prof", "--", "sh", "-c",
             shell.format(victim, base) + " > /dev/null", code=0)
        self.assertEqual(self.read(victim), "precious\n")
        made = [entry for entry in os.scandir(self.folder) if entry.name.endswith(".prof") and not entry.is_symlink()]
        self.assertTrue(made)
        for entry in made:
            self.assertEqual(entry.stat().st_mode & 0o077, 0, entry.name)

    def test_a_link_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make another user's link")
        victim = self.write("victim", "precious\n", 0o644)
        link = self.path("out.prof")
        os.symlink(victim, link)
        os.chown(link, 65534, 65534, follow_symlinks=False)
        tarn("profile", "-o", link, "--", "true", code=125)
        self.assertEqual(self.read(victim), "precious\n")

    def test_a_process_that_attacks_the_others(self):
        user = 65534 if os.geteuid() == 0 else os.geteuid()
        for mode in ("full", "sample"):
            profile = self.path(f"{mode}.prof")
            result = tarn("profile", "--mode", mode, "-o", profile, "--", settings.hostile_session, str(user), code=0)
            self.assertEqual(result.stdout, "child 0\n", result.stderr)
            self.assertEqual(tarn("show", profile).returncode, 0)
            known = json.loads(tarn("export", "--json", profile).stdout)
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
