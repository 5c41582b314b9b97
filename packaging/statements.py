#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what a release states about its artefacts: which parts of others are in them (SPDX 2.3), and what they were made
from, where and by whom (an in-toto statement with SLSA's provenance).

Usage: statements.py sbom ARTEFACTS VERSION
       statements.py provenance ARTEFACTS VERSION COMMIT SIGNER STARTED     SIGNER: the fingerprint of a GPG key

ARTEFACTS is the folder that ./dev release fills; the file is tarn-VERSION.spdx.json or tarn-VERSION.intoto.json in it. The
versions of others' parts are those of the Debian packages that are installed here, from which they were linked
(packaging/linked.txt). SOURCE_DATE_EPOCH is the moment that the first of the two bears.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

PACKAGING = pathlib.Path(__file__).resolve().parent
PAGE = "page"  # uPlot: it lies in the source tree, in the page of a report
# Which parts an artefact has, by the pattern of its name; the first that fits counts.
PARTS = [(r"tarn-.*-linux-.*\.tar\.gz|tarn_memory-.*\.whl", {"linked", "compiled", "library", "opened", PAGE}),
         (r"tarn_.*\.deb", {"compiled", "opened", PAGE}),
         (r"libtarn.*\.deb", {"library"}),
         (r"tarn-dbgsym_.*\.deb|.*\.crate", set()),
         (r"tarn-[0-9.]+\.tar\.gz|tarn_memory-.*\.tar\.gz", {PAGE})]


def printed(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def moment(seconds):
    return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def components():
    """(how, name, version, licence, purl) of each part of others."""
    named = re.search(r"^(\w+) ([0-9.]+),", (PACKAGING.parent / "profiler/report/page/THIRD-PARTY.txt").read_text(), re.M)
    yield PAGE, named[1], named[2], "MIT", f"pkg:npm/{named[1].lower()}@{named[2]}"
    for line in (PACKAGING / "linked.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        how, package, name, licence = line.split(None, 3)
        version, architecture = printed("dpkg-query", "-W", "-f", "${Version} ${Architecture}\n", package).split("\n")[0].split()
        yield how, name, version, licence, f"pkg:deb/debian/{package}@{version}?arch={architecture}"


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]", "-", name)


def package(name, version, licence, **more):
    return {"name": name, "SPDXID": identifier(name), "versionInfo": version, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": licence,
            "copyrightText": "NOASSERTION", **more}


def relations(artefact, parts, known):
    """(element, relation, element) for each component in the artefact."""
    for how, name, *_ in known:
        if how not in parts:
            continue
        if how == "opened":
            yield identifier(name), "OPTIONAL_DEPENDENCY_OF", identifier(artefact.name)
        else:
            yield identifier(artefact.name), "CONTAINS" if how == PAGE else "STATIC_LINK", identifier(name)


def sbom(folder, version):
    known = list(components())
    packages = [package(name, version_, licence, externalRefs=[
        {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}])
        for _, name, version_, licence, purl in known]
    related, sums = [], hashlib.sha256()
    for artefact in artefacts(folder):
        parts = next((parts for pattern, parts in PARTS if re.fullmatch(pattern, artefact.name)), None)
        if parts is None:
            continue
        sums.update(digest(artefact).encode())
        packages.append(package(artefact.name, version, "MIT", packageFileName=artefact.name,
                                checksums=[{"algorithm": "SHA256", "checksumValue": digest(artefact)}]))
        related.append(("SPDXRef-DOCUMENT", "DESCRIBES", identifier(artefact.name)))
        related += relations(artefact, parts, known)
        for other in depended_on(artefact):
            if all(identifier(other) != one["SPDXID"] for one in packages):
                packages.append(package(other, "", "NOASSERTION"))
            related.append((identifier(artefact.name), "DEPENDS_ON", identifier(other)))
    for one in packages:
        if not one["versionInfo"]:
            del one["versionInfo"]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"tarn-{version}",
            "documentNamespace": f"https://tarn.example/spdx/tarn-{version}-{sums.hexdigest()}",
            "creationInfo": {"created": moment(os.environ["SOURCE_DATE_EPOCH"]), "creators": ["Organization: tarn contributors"]},
            "packages": packages,
            "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                              for one, kind, other in related]}


def depended_on(artefact):
    """The names of other packages that a Debian package needs."""
    if artefact.suffix != ".deb":
        return []
    fields = printed("dpkg-deb", "-f", artefact, "Depends")
    return sorted({re.match(r"[^ (|]+", one.strip())[0] for one in fields.split(",") if one.strip()})


def artefacts(folder):
    """What is downloaded, without what speaks about it; the packages in the apt repository are those beside it."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and "apt" not in path.relative_to(folder).parts
            and not re.search(r"SHA256SUMS|\.json$|\.asc$", path.name)]


def provenance(folder, version, commit, signer, started):
    return {"_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": str(path.relative_to(folder)), "digest": {"sha256": digest(path)}} for path in artefacts(folder)],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": "https://tarn.example/dev-release/v1",
                    "externalParameters": {"command": "./dev release", "version": version},
                    "internalParameters": {
                        "system": re.search(r'^PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text(), re.M)[1],
                        "compiler": printed(*os.environ.get("CXX", "g++").split(), "--version").splitlines()[0],
                        "cmake": printed("cmake", "--version").splitlines()[0]},
                    "resolvedDependencies": [
                        {"uri": "git+https://tarn.example/tarn", "digest": {"gitCommit": commit}},
                        *({"uri": purl} for how, *_, purl in components() if how != PAGE)]},
                "runDetails": {"builder": {"id": f"openpgp4fpr:{signer}"},
                               "metadata": {"startedOn": moment(started),
                                            "finishedOn": moment(datetime.datetime.now().timestamp())}}}}


def main():
    if len(sys.argv) < 4 or (sys.argv[1], len(sys.argv)) not in (("sbom", 4), ("provenance", 7)):
        sys.exit(__doc__)
    kind, folder, version = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    made = sbom(folder, version) if kind == "sbom" else provenance(folder, version, *sys.argv[4:])
    name = f"tarn-{version}.{'spdx' if kind == 'sbom' else 'intoto'}.json"
    (folder / name).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
