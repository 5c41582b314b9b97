// SPDX-License-Identifier: MIT

package recyclers

import (
	"bytes"
	"sync"
	"testing"
)

const bufferLength = 10000

var (
	content    = bytes.Repeat([]byte{'x'}, bufferLength)
	sinkBuffer *bytes.Buffer
)

func BenchmarkBuffer10kFresh(b *testing.B) {
	for i := 0; i < b.N; i++ {
		buffer := new(bytes.Buffer)
		buffer.Write(content)
		sinkBuffer = buffer
	}
}

func BenchmarkBuffer10kByHand(b *testing.B) {
	buffer := new(bytes.Buffer)
	sinkBuffer = buffer
	for i := 0; i < b.N; i++ {
		buffer.Reset()
		buffer.Write(content)
	}
}

func BenchmarkBuffer10kRecycled(b *testing.B) {
	pool := &sync.Pool{New: func() any { return new(bytes.Buffer) }}
	for i := 0; i < b.N; i++ {
		buffer := pool.Get().(*bytes.Buffer)
		buffer.Write(content)
		buffer.Reset()
		pool.Put(buffer)
	}
}
