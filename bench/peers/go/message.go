// SPDX-License-Identifier: MIT

// Package recyclers measures Go's sync.Pool with the scenes of bench/recyclers, so that its figures stand beside those
// of tarn's recycler and Netty's. Standard library only.
package recyclers

import "sync"

// message is what the pools hold: 64 bytes. One word is written by each user, and reset before it goes back.
type message struct {
	words [8]uint64
}

func (m *message) reset() { m.words[0] = 0 }

func newMessagePool() *sync.Pool {
	return &sync.Pool{New: func() any { return new(message) }}
}
