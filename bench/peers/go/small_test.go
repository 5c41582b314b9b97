// SPDX-License-Identifier: MIT

package recyclers

import "testing"

// What a benchmark stores here is neither removed nor kept on the stack.
var sink *message

// newMessage is not inlined, so that the object has to be on the heap without a store that all threads share.
//
//go:noinline
func newMessage() *message { return new(message) }

//go:noinline
func keep(*message) {}

func BenchmarkGetReleaseFresh(b *testing.B) {
	for i := 0; i < b.N; i++ {
		m := new(message)
		m.words[0] = uint64(i)
		sink = m
	}
}

func BenchmarkGetReleaseRecycled(b *testing.B) {
	pool := newMessagePool()
	for i := 0; i < b.N; i++ {
		m := pool.Get().(*message)
		m.words[0] = uint64(i)
		m.reset()
		pool.Put(m)
	}
}

func BenchmarkParallelFresh(b *testing.B) {
	b.RunParallel(func(each *testing.PB) {
		var last *message
		for i := uint64(0); each.Next(); i++ {
			m := newMessage()
			m.words[0] = i
			last = m
		}
		keep(last)
	})
}

func BenchmarkParallelRecycled(b *testing.B) {
	pool := newMessagePool()
	b.RunParallel(func(each *testing.PB) {
		for i := uint64(0); each.Next(); i++ {
			m := pool.Get().(*message)
			m.words[0] = i
			m.reset()
			pool.Put(m)
		}
	})
}

const burstLength = 100

// The bursts count objects, not bursts: b.N is rounded up to whole ones. Get and Put stand in the loops themselves, where
// the compiler may inline what it can.
func BenchmarkBurst100Fresh(b *testing.B) {
	var out [burstLength]*message
	for done := 0; done < b.N; done += burstLength {
		for i := range out {
			m := new(message)
			m.words[0] = uint64(i)
			out[i] = m
		}
		for _, m := range out {
			sink = m
		}
	}
}

func BenchmarkBurst100Recycled(b *testing.B) {
	pool := newMessagePool()
	var out [burstLength]*message
	for done := 0; done < b.N; done += burstLength {
		for i := range out {
			m := pool.Get().(*message)
			m.words[0] = uint64(i)
			out[i] = m
		}
		for _, m := range out {
			m.reset()
			pool.Put(m)
		}
	}
}

// cross has objects taken by one goroutine and given back by another. It counts objects: b.N is rounded up to whole
// batches. consume returns how many objects of a batch do not hold their serial number.
func cross(b *testing.B, produce func(first uint64, batch *[batchLength]*message),
	consume func(first uint64, batch *[batchLength]*message) int) {
	batches := uint64((b.N + batchLength - 1) / batchLength)
	line := new(ring)
	ended := make(chan int)
	b.ResetTimer()
	go func() {
		wrong := 0
		line.consume(batches, func(at uint64, batch *[batchLength]*message) {
			wrong += consume(at*batchLength, batch)
		})
		ended <- wrong
	}()
	line.produce(batches, func(at uint64, batch *[batchLength]*message) { produce(at*batchLength, batch) })
	if wrong := <-ended; wrong != 0 {
		b.Fatalf("%d objects were overwritten", wrong)
	}
}

func BenchmarkCrossFresh(b *testing.B) {
	cross(b,
		func(first uint64, batch *[batchLength]*message) {
			for i := range batch {
				m := new(message)
				m.words[0] = first + uint64(i)
				batch[i] = m
			}
		},
		func(first uint64, batch *[batchLength]*message) (wrong int) {
			for i, m := range batch {
				if m.words[0] != first+uint64(i) {
					wrong++
				}
				sink = m
			}
			return wrong
		})
}

func BenchmarkCrossRecycled(b *testing.B) {
	pool := newMessagePool()
	cross(b,
		func(first uint64, batch *[batchLength]*message) {
			for i := range batch {
				m := pool.Get().(*message)
				m.words[0] = first + uint64(i)
				batch[i] = m
			}
		},
		func(first uint64, batch *[batchLength]*message) (wrong int) {
			for i, m := range batch {
				if m.words[0] != first+uint64(i) {
					wrong++
				}
				m.reset()
				pool.Put(m)
			}
			return wrong
		})
}
