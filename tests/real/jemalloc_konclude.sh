#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Konclude, a reasoner with a thread for each processor, runs unchanged on libtarn-jemalloc: it derives the same order of the
# classes of an ontology as on jemalloc.
. "$(dirname "$0")/jemalloc_common.sh"
need Konclude konclude
need python3 python3
asks_for_jemalloc Konclude

classes=600
[ "$long" = 1 ] && classes=4000
python3 - $classes >ontology.fss <<'CODE'
import random
import sys

random.seed(7)
classes = int(sys.argv[1])
print("Prefix(:=<http://example.test/o#>)")
print("Prefix(owl:=<http://www.w3.org/2002/07/owl#>)")
print("Ontology(<http://example.test/o>")
for i in range(classes):
    print(f"Declaration(Class(:c{i}))")
for i in range(8):
    print(f"Declaration(ObjectProperty(:p{i}))")
for i in range(1, classes):
    print(f"SubClassOf(:c{i} :c{random.randrange(i)})")
    some = f"ObjectSomeValuesFrom(:p{random.randrange(8)} :c{random.randrange(classes)})"
    if i % 5 == 0:
        print(f"EquivalentClasses(:c{i} ObjectIntersectionOf(:c{random.randrange(i)} {some}))")
    elif i % 3 == 0:
        print(f"SubClassOf(:c{i} {some})")
print(")")
CODE
for way in jemalloc tarn; do
  run 900 Konclude classification -w AUTO -i ontology.fss -o "$work/classes.$way.owl"
  python3 - "classes.$way.owl" >"classes.$way" <<'CODE'
import sys
import xml.etree.ElementTree

# One axiom a line; neither their order nor that of equivalent classes means anything.
for axiom in xml.etree.ElementTree.parse(sys.argv[1]).getroot():
    names = [part.get("IRI") or part.get("abbreviatedIRI") or "" for part in axiom]
    kind = axiom.tag.rpartition("}")[2]
    print(kind, *(names if kind == "SubClassOf" else sorted(names)))
CODE
  sort -o "classes.$way" "classes.$way"
done
require_loaded Konclude
compare "the order of the classes" classes.jemalloc classes.tarn
same "Konclude: $(wc -l <classes.tarn) axioms about $classes classes"
