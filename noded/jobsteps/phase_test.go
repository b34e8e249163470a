package jobsteps

import (
	"math/rand/v2"
	"testing"
)

// TestPhases compares the table with what it stands for: whether a client is connected, whether one is
// awaited, and whether the job has ended.
func TestPhases(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		p, client, dropped, last := waiting, false, false, false
		for range 12 {
			h := happening(r.IntN(int(neverBegan) + 1))
			switch {
			case (h == clientLost || h == clientTold) && !client, h == patienceOver && (client || dropped),
				h == neverBegan && p != waiting:
				continue // it cannot happen now
			}
			switch h {
			case clientCame:
				client = true
			case clientLost:
				client, dropped = false, dropped || last
			case clientTold:
				client, dropped = false, true
			case patienceOver, neverBegan:
				dropped = true
			case jobEnded:
				last, dropped = true, dropped || !client
			}
			p = p.after(h)
			want := map[[3]bool]phase{
				{true, false, false}: attached, {true, false, true}: leaving, {false, false, false}: waiting,
				{false, true, false}: draining, {true, true, false}: reading,
			}[[3]bool{client, dropped, last && !dropped}]
			if p != want || p.reads() != (client || dropped) || p.keeps() == dropped {
				t.Fatalf("seed=%d: after %d it is in phase %d, not %d", seed, h, p, want)
			}
		}
	}
}
