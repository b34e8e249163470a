package jobspec_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

func TestParseShare(t *testing.T) {
	for text, want := range map[string]int{"0.5": 500, "1": 1000, "1.0": 1000, "0.001": 1, "0.999": 999, ".25": 250,
		"5e-1": 500, "0.333": 333} {
		if got, err := jobspec.ParseShare(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"1.5": "more than one GPU", "2": "more than one GPU",
		"0": "not a part of a GPU", "-0.5": "not a part of a GPU", "0.3333": "finer than a thousandth",
		"1e-9": "finer than a thousandth",
		"half": "not a part", "": "not a part", "NaN": "not a part", "Inf": "more than one", "0.5x": "not a part"} {
		if got, err := jobspec.ParseShare(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v, want %q", text, got, err, want)
		}
	}
	for n := 1; n < jobspec.WholeGPU; n++ {
		if got, err := jobspec.ParseShare((&jobspec.GPU{Share: n}).ShareText()); err != nil || got != n {
			t.Fatalf("%d thousandths are written and read as %d, %v", n, got, err)
		}
	}
}

// TestDeclaredMemoryFits takes random jobs whose shares fit on one GPU. The memory that they
// declare must fit then, too.
func TestDeclaredMemoryFits(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	crowded := 0
	for range 3000 {
		all := jobspec.Bytes(1 + r.Int64N(int64(200*jobspec.GiB)))
		var shares int
		var memory jobspec.Bytes
		for range 50 {
			g := &jobspec.GPU{Share: 1 + r.IntN(999), MaxMemory: jobspec.PartOfMemory}
			if r.IntN(3) > 0 {
				g.MaxMemory = 1 + jobspec.Bytes(r.Int64N(int64(all)))
			}
			if g.LeastMemory() > all || shares+g.Share > jobspec.WholeGPU {
				continue
			}
			shares += g.Share
			memory += g.MemoryOn(all)
		}
		if memory > all {
			t.Fatalf("seed %d: %d thousandths of a GPU with %d bytes may use %d", seed, shares, all, memory)
		}
		if memory > all*9/10 {
			crowded++
		}
	}
	if crowded < 300 {
		t.Errorf("seed %d: GPUs were nearly full %d times: too seldom to prove anything", seed, crowded)
	}
}

func TestMemoryOfShares(t *testing.T) {
	for _, c := range []struct {
		gpu       *jobspec.GPU
		on, least jobspec.Bytes // of 80 GiB
	}{
		{nil, 0, 0}, {&jobspec.GPU{MinMemory: 7}, 0, 0}, {&jobspec.GPU{Share: 500}, 0, 0},
		{&jobspec.GPU{Share: 500, MaxMemory: jobspec.PartOfMemory}, 40 * jobspec.GiB, 0},
		{&jobspec.GPU{Share: 500, MaxMemory: 10 * jobspec.GiB}, 10 * jobspec.GiB, 20 * jobspec.GiB},
		{&jobspec.GPU{Share: 300, MaxMemory: 10}, 10, 34},
		{&jobspec.GPU{Share: 1, MaxMemory: jobspec.MaxSize}, jobspec.MaxSize, jobspec.MaxSize},
	} {
		if on, least := c.gpu.MemoryOn(80*jobspec.GiB), c.gpu.LeastMemory(); on != c.on || least != c.least {
			t.Errorf("%+v: may use %d, needs a GPU with %d; want %d and %d", c.gpu, on, least, c.on, c.least)
		}
	}
}
