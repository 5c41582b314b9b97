// SPDX-License-Identifier: MIT

package recyclers

import (
	"runtime"
	"sync/atomic"
)

// The same in all languages: bench/workloads/pipeline.hpp, Ring.java.
const (
	batchLength = 32
	ringLength  = 32
)

// ring passes batches of pointers from one goroutine to one other. `written` is only stored by the producer, `read`
// only by the consumer; each has its cache line.
type ring struct {
	batches [ringLength][batchLength]*message
	_       [64]byte
	written atomic.Uint64
	_       [56]byte
	read    atomic.Uint64
	_       [56]byte
}

// produce calls fill for each batch, in order.
func (r *ring) produce(batches uint64, fill func(at uint64, batch *[batchLength]*message)) {
	for at := uint64(0); at < batches; at++ {
		for at-r.read.Load() >= ringLength {
			runtime.Gosched()
		}
		fill(at, &r.batches[at%ringLength])
		r.written.Store(at + 1)
	}
}

// consume calls empty for each batch, in order.
func (r *ring) consume(batches uint64, empty func(at uint64, batch *[batchLength]*message)) {
	for at := uint64(0); at < batches; at++ {
		for r.written.Load() == at {
			runtime.Gosched()
		}
		empty(at, &r.batches[at%ringLength])
		r.read.Store(at + 1)
	}
}
