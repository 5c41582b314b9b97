#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# javac gives the same class file, and a Java program that keeps the garbage collector busy gives the same output.
. "$(dirname "$0")/common.sh"
need java default-jdk-headless
need javac default-jdk-headless

rounds=6
collectors=(Serial G1)
[ "$long" = 1 ] && rounds=60 collectors=(Serial Parallel G1)
cat >Work.java <<'CODE'
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;
public class Work {
  static long work(int seed, int rounds) throws Exception {
    Random random = new Random(seed);
    CRC32 sum = new CRC32();
    TreeMap<String, byte[]> live = new TreeMap<>();
    for (int r = 0; r < rounds; ++r) {
      for (int i = 0; i < 20000; ++i) live.put("k" + random.nextInt(5000), new byte[random.nextInt(800)]);
      for (Map.Entry<String, byte[]> one : live.entrySet()) { sum.update(one.getKey().getBytes()); sum.update(one.getValue()); }
      Deflater deflater = new Deflater();
      byte[] text = live.keySet().toString().getBytes(), out = new byte[text.length + 100];
      deflater.setInput(text); deflater.finish(); sum.update(out, 0, deflater.deflate(out)); deflater.end();
    }
    return sum.getValue();
  }
  public static void main(String[] arguments) throws Exception {
    int rounds = Integer.parseInt(arguments[0]);
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Future<Long>> all = new ArrayList<>();
    for (int i = 0; i < 8; ++i) { final int seed = i; all.add(pool.submit(() -> work(seed, rounds))); }
    for (Future<Long> one : all) System.out.println(one.get());
    pool.shutdown();
    if (java.lang.management.ManagementFactory.getGarbageCollectorMXBeans().stream().mapToLong(b -> b.getCollectionCount()).sum() == 0)
      throw new Error("nothing was collected");
  }
}
CODE
mkdir with.out without.out
without 300 javac -d without.out Work.java || fail "javac fails without tarn"
with 300 javac -d with.out Work.java || fail "javac fails with tarn (status $?)"
require_loaded javac
compare "class file" without.out/Work.class with.out/Work.class
for collector in "${collectors[@]}"; do
  flags=(-XX:+Use${collector}GC -Xmx96m -cp without.out Work $rounds)
  without 600 java "${flags[@]}" >without.txt || fail "java with ${collector}GC fails without tarn"
  with 600 java "${flags[@]}" >with.txt || fail "java with ${collector}GC fails with tarn (status $?)"
  compare "output with ${collector}GC" without.txt with.txt
done
require_loaded java
same "javac and java with ${collectors[*]} collectors"
