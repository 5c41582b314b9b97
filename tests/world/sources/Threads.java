// SPDX-License-Identifier: MIT
// Threads that compress and expand: zlib's buffers come from malloc. Prints a sum.
import java.util.zip.*;

public class Threads {
  static long squeeze(int seed) throws Exception {
    byte[] text = new byte[20000];
    for (int i = 0; i < text.length; ++i) text[i] = (byte) ((i * seed) >> 7);
    long sum = 0;
    for (int round = 0; round < 20; ++round) {
      Deflater deflater = new Deflater();
      deflater.setInput(text);
      deflater.finish();
      byte[] out = new byte[40000];
      int size = deflater.deflate(out);
      deflater.end();
      Inflater inflater = new Inflater();
      inflater.setInput(out, 0, size);
      byte[] back = new byte[text.length];
      sum += inflater.inflate(back) + back[round];
      inflater.end();
    }
    return sum;
  }

  public static void main(String[] words) throws Exception {
    int rounds = words.length > 0 ? Integer.parseInt(words[0]) : 60;
    long[] sums = new long[4];
    for (int round = 0; round < rounds; ++round) {
      Thread[] threads = new Thread[4];
      for (int index = 0; index < 4; ++index) {
        final int own = index, seed = round * 4 + index + 1;
        threads[index] = new Thread(() -> {
          try { sums[own] += squeeze(seed); } catch (Exception problem) { throw new RuntimeException(problem); }
        });
        threads[index].start();
      }
      for (Thread each : threads) each.join();
    }
    System.out.println(sums[0] + sums[1] + sums[2] + sums[3]);
  }
}
