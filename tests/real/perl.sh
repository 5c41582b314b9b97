#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# perl: a program with hashes, regular expressions, sorting, closures and fork gives the same output.
. "$(dirname "$0")/common.sh"
need perl perl

rounds=3
[ "$long" = 1 ] && rounds=60
cat >work.pl <<'CODE'
use strict; use warnings;
my $rounds = shift;
for my $round (1 .. $rounds) {
  my (%count, @words);
  my $x = 12345 + $round;
  for (1 .. 60000) { $x = ($x * 1103515245 + 12345) % 2147483648; push @words, sprintf("w%x-%d", $x % 5003, $x % 17); }
  for (@words) { $count{$1} .= $2 if /^w([0-9a-f]+)-(\d+)$/ }
  my @top = sort { length($count{$b}) <=> length($count{$a}) || $a cmp $b } keys %count;
  print join(",", map { "$_:" . length $count{$_} } @top[0 .. 40]), "\n";
  my $text = join " ", @words; $text =~ s/(\d+)-(\d)/$2-$1/g;
  print unpack("%32C*", $text), " ", length $text, "\n";
  my @nest = map { my $n = $_; sub { [ map { $_ * $n } 1 .. 20 ] } } 1 .. 2000;
  my $sum = 0; $sum += $_->()->[19] for @nest; print "$sum\n";
  pipe my $r, my $w or die; my $pid = fork // die;
  if (!$pid) { close $r; print $w join ":", scalar keys %count, scalar grep /-3$/, @words; close $w; exit 0 }
  close $w; print scalar <$r>, "\n"; waitpid $pid, 0; die "child: $?" if $?;
}
CODE
without 300 perl work.pl $rounds >without.txt || fail "perl fails without tarn"
with 300 perl work.pl $rounds >with.txt || fail "perl fails with tarn (status $?)"
require_loaded perl
compare "output" without.txt with.txt
same "perl, $rounds rounds"
