#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sqlite3: inserts, joins, updates and VACUUM give the same rows, the same dump and the same database file.
. "$(dirname "$0")/common.sh"
need sqlite3 sqlite3

rows=60000
[ "$long" = 1 ] && rows=1000000
cat >work.sql <<SQL
CREATE TABLE item(id INTEGER PRIMARY KEY, grp INT, name TEXT, body BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < $rows)
  INSERT INTO item SELECT i, (i*7919)%997, printf('item-%06d', (i*104729)%$rows), zeroblob(i%300) FROM n;
CREATE INDEX by_name ON item(name);
CREATE INDEX by_grp ON item(grp, name);
SELECT count(*), sum(length(body)), min(name), max(name) FROM item;
SELECT grp, count(*), group_concat(substr(name, 6, 2), '') FROM item GROUP BY grp ORDER BY grp LIMIT 200;
SELECT count(*) FROM item a JOIN item b ON a.name = b.name AND a.id <= b.id;
UPDATE item SET name = upper(name) || hex(id) WHERE id % 3 = 0;
DELETE FROM item WHERE id % 5 = 0;
SELECT json_group_array(json_object('g', grp, 'n', name)) FROM (SELECT * FROM item ORDER BY name LIMIT 3000);
VACUUM;
PRAGMA integrity_check;
.dump
SQL
without 600 sqlite3 without.db <work.sql >without.txt || fail "sqlite3 fails without tarn"
with 600 sqlite3 with.db <work.sql >with.txt || fail "sqlite3 fails with tarn (status $?)"
require_loaded sqlite3
compare "output" without.txt with.txt
compare "database file" without.db with.db
same "sqlite3, $rows rows, $(wc -c <with.txt) bytes of results"
