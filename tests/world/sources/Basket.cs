// SPDX-License-Identifier: MIT
// Threads, and memory of malloc through Marshal. Prints a sum.
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Threading;

class Basket {
  static long Fill(int seed) {
    long sum = 0;
    var rows = new Dictionary<string, int>();
    for (int i = 0; i < 2000; ++i) {
      IntPtr box = Marshal.AllocHGlobal(i * seed % 3000 + 8);
      Marshal.WriteInt32(box, i);
      sum += Marshal.ReadInt32(box);
      Marshal.FreeHGlobal(box);
      rows["k" + i * seed % 997] = i;
    }
    return sum + rows.Count;
  }
  static void Main(string[] words) {
    long sum = 0;
    for (int round = 0; round < int.Parse(words[0]); ++round) {
      var threads = new Thread[4];
      var sums = new long[4];
      for (int t = 0; t < 4; ++t) { int own = t, seed = round * 4 + t + 1; threads[t] = new Thread(() => sums[own] = Fill(seed)); threads[t].Start(); }
      for (int t = 0; t < 4; ++t) { threads[t].Join(); sum += sums[t]; }
    }
    Console.WriteLine(sum);
  }
}
