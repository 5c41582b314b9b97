// SPDX-License-Identifier: MIT

package recyclers

import (
	"encoding/json"
	"os"
	"sync"
	"testing"
)

// order is the document of bench/recyclers/order.json, which the benchmarks' environment names.
type order struct {
	ID       uint64 `json:"id"`
	Customer struct {
		Name  string `json:"name"`
		Email string `json:"email"`
		City  string `json:"city"`
	} `json:"customer"`
	Paid  bool     `json:"paid"`
	Tags  []string `json:"tags"`
	Items []item   `json:"items"`
	Total float64  `json:"total"`
}

type item struct {
	SKU    string  `json:"sku"`
	Title  string  `json:"title"`
	Amount int     `json:"amount"`
	Price  float64 `json:"price"`
}

// reset keeps what the slices have grown to.
func (o *order) reset() {
	tags, items := o.Tags[:0], o.Items[:0]
	*o = order{Tags: tags, Items: items}
}

const orderVariable = "RECYCLERS_ORDER"

func readOrder(b *testing.B) []byte {
	path := os.Getenv(orderVariable)
	if path == "" {
		b.Fatalf("%s must name bench/recyclers/order.json", orderVariable)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return text
}

func parse(b *testing.B, text []byte, into *order) {
	if err := json.Unmarshal(text, into); err != nil {
		b.Fatal(err)
	}
	if len(into.Items) != itemsOfOrder {
		b.Fatalf("%d items instead of %d", len(into.Items), itemsOfOrder)
	}
}

const itemsOfOrder = 8

var sinkOrder *order

func BenchmarkJsonFresh(b *testing.B) {
	text := readOrder(b)
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		document := new(order)
		parse(b, text, document)
		sinkOrder = document
	}
}

func BenchmarkJsonByHand(b *testing.B) {
	text := readOrder(b)
	document := new(order)
	sinkOrder = document
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		parse(b, text, document)
		document.reset()
	}
}

func BenchmarkJsonRecycled(b *testing.B) {
	text := readOrder(b)
	pool := &sync.Pool{New: func() any { return new(order) }}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		document := pool.Get().(*order)
		parse(b, text, document)
		document.reset()
		pool.Put(document)
	}
}
