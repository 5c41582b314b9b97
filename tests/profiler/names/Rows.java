// SPDX-License-Identifier: MIT
// A program for the tests of names: its methods allocate blocks outside of Java's heap.
import java.nio.ByteBuffer;

public class Rows {
  static ByteBuffer kept;

  static void makeRow(int number) {
    kept = ByteBuffer.allocateDirect(100000 + number % 10);
  }

  static void makeRows(int count) {
    for (int number = 0; number < count; ++number) makeRow(number);
  }

  public static void main(String[] words) {
    for (int round = 0; round < 20; ++round) makeRows(100);
    System.out.println(kept.capacity());
  }
}
