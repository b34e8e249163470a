package consensus_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/consensustest"
)

// discard is a machine that costs nothing.
type discard struct{}

func (discard) Apply(_ uint64, proposals [][]byte) []any { return make([]any, len(proposals)) }
func (discard) Restore(io.Reader) error                  { return nil }
func (discard) Snapshot() (func(io.Writer) error, error) {
	return func(io.Writer) error { return nil }, nil
}

// share divides b.N calls among callers that work at once.
func share(b *testing.B, callers int, call func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkPropose(b *testing.B) {
	payload := make([]byte, 512)
	for _, members := range []int{1, 3} {
		for _, callers := range []int{1, 64, 1024} {
			b.Run(fmt.Sprintf("members=%d/callers=%d", members, callers), func(b *testing.B) {
				c := consensustest.Start(b, members, func(string) consensus.Machine { return discard{} }, nil)
				node := c.Node(c.WaitLeader())
				b.ResetTimer()
				share(b, callers, func() error {
					_, _, err := node.Propose(context.Background(), payload)
					return err
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "proposals/s")
			})
		}
	}
}
