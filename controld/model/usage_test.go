package model

import "testing"

// TestUsed shows how the usage of workers adds up.
func TestUsed(t *testing.T) {
	a := &Attempt{Workers: []Worker{
		{Place: Place{GPUs: []int{0, 1}}, Usage: &Usage{CPUMS: 1000, SystemMS: 20, PeakCores: 500, PeakMemory: 7,
			GPU: 400, PeakGPU: 900, GPUMemory: 10, PeakGPUMemory: 20}},
		{Place: Place{GPUs: []int{0}}, Usage: &Usage{CPUMS: 3000, SystemMS: 1, PeakCores: 1500, PeakMemory: 5,
			GPU: 700, PeakGPU: 700, GPUMemory: 1, PeakGPUMemory: 2}},
		{Usage: &Usage{CPUMS: 1}}, // it has no GPU
		{Place: Place{GPUs: []int{1}}},
	}}
	want := Usage{CPUMS: 4001, SystemMS: 21, PeakCores: 2000, PeakMemory: 7, GPU: 500, PeakGPU: 900, GPUMemory: 11,
		PeakGPUMemory: 22}
	if got := a.Used(); got == nil || got.Usage != want || got.Memory != 12 || got.Workers != 3 {
		t.Errorf("used is %+v", got)
	}
	for _, none := range []*Attempt{{}, {Workers: []Worker{{}}}, {Workers: []Worker{{Usage: &Usage{}}}}} {
		if got := none.Used(); got != nil {
			t.Errorf("of %+v used is %+v", none, got)
		}
	}
}

// TestPossibleUsage shows which usage no worker can have had.
func TestPossibleUsage(t *testing.T) {
	for _, u := range []Usage{{}, {CPUMS: 1 << 60, SystemMS: 1 << 60, GPU: 1000, PeakGPU: 1000, PeakMemory: 1 << 60}} {
		if !u.Possible() {
			t.Errorf("%+v is not possible", u)
		}
	}
	for _, u := range []Usage{{CPUMS: 9, SystemMS: 4, ExternCPUMS: 9, ExternSystemMS: 4},
		{CPUMS: 9, SystemMS: 4, ExternCPUMS: 5}, {CPUMS: 9, SystemMS: 4, ExternCPUMS: 3, ExternSystemMS: 3},
		{ExternMemory: 1}} {
		if !u.Possible() {
			t.Errorf("%+v is not possible", u)
		}
	}
	for _, u := range []Usage{{CPUMS: 9, ExternCPUMS: 10}, {CPUMS: 9, SystemMS: 4, ExternCPUMS: 6},
		{CPUMS: 9, SystemMS: 4, ExternCPUMS: 6, ExternSystemMS: 5}, {CPUMS: 9, SystemMS: 4, ExternSystemMS: 1},
		{CPUMS: 9, ExternCPUMS: -1}, {CPUMS: 9, SystemMS: 4, ExternCPUMS: 1, ExternSystemMS: -1}, {ExternMemory: -1}} {
		if u.Possible() {
			t.Errorf("%+v is possible", u)
		}
	}
	for _, u := range []Usage{{CPUMS: -1}, {SystemMS: -1}, {CPUMS: 1, SystemMS: 2}, {PeakCores: -1}, {PeakMemory: -1},
		{GPU: -1}, {PeakGPU: -1}, {GPUMemory: -1},
		{PeakGPUMemory: -1}, {GPU: 1001}, {PeakGPU: 1001}} {
		if u.Possible() {
			t.Errorf("%+v is possible", u)
		}
	}
}
