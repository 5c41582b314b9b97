// SPDX-License-Identifier: MIT
// Goroutines that allocate by C's malloc through cgo. Prints a sum.
package main

/*
#include <stdlib.h>
#include <string.h>
static unsigned long fill_box(unsigned long seed) {
  unsigned long sum = 0;
  for (unsigned long i = 0; i < 200; ++i) {
    size_t size = (seed * 31 + i * 97) % 3000 + 1;
    unsigned char* box = malloc(size);
    memset(box, (int)(i + seed), size);
    sum += box[size / 2] + size;
    free(box);
  }
  return sum;
}
*/
import "C"
import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

func main() {
	rounds := 200
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	sums := make([]uint64, 8)
	for round := 0; round < rounds; round++ {
		var group sync.WaitGroup
		for index := 0; index < 8; index++ {
			group.Add(1)
			go func(index int) {
				defer group.Done()
				sums[index] += uint64(C.fill_box(C.ulong(round*8 + index)))
			}(index)
		}
		group.Wait()
	}
	var sum uint64
	for _, each := range sums {
		sum += each
	}
	fmt.Println(sum)
}
