package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/container/containertest"
)

// BenchmarkSwitch has a program pause and go on, by each means, and tells how long both take from the
// order until the runtime says that it is done.
func BenchmarkSwitch(b *testing.B) {
	programs := map[string]containertest.Kind{"pause point": containertest.Pauses, "freezer": containertest.Runs}
	for name, k := range programs {
		b.Run(name, func(b *testing.B) {
			n := newNode(b, 0)
			id := container.ID{Job: 1, Attempt: 1}
			ctx := context.Background()
			check(b, n.shims.Create(ctx, id, n.program(id, k), time.Now().Add(time.Hour)))
			check(b, n.shims.Start(ctx, id))
			n.ready(b, id)
			var took [2][]time.Duration // to go on, to pause
			b.ResetTimer()
			for number := 1; number <= 2*b.N; number++ {
				began := time.Now()
				check(b, n.shims.Switch(ctx, id, container.SwitchOrder{Number: number, WithinMS: 20_000}))
				n.switched(b, id, number)
				took[number%2] = append(took[number%2], time.Since(began))
			}
			for i, what := range []string{"resume", "suspend"} {
				slices.Sort(took[i])
				for _, percent := range []int{50, 99} {
					at := took[i][(len(took[i])-1)*percent/100]
					b.ReportMetric(float64(at.Microseconds())/1000, what+"-p"+map[int]string{50: "50", 99: "99"}[percent]+"-ms")
				}
			}
		})
	}
}

// switched waits until an order was carried out.
func (n *node) switched(t testing.TB, id container.ID, number int) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		list, err := n.shims.List(context.Background())
		check(t, err)
		for _, s := range list {
			if s.ID == id && s.Switch.Done == number {
				return
			}
		}
		select {
		case <-n.shims.Changes():
		case <-late:
			t.Fatalf("order %d was not carried out: %+v", number, list)
		}
	}
}
