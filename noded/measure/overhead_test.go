package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/gpu/gputest"
	"github.com/rota-hpc/rota/noded/gpu/nvml"
	"github.com/rota-hpc/rota/noded/gpus"
	"github.com/rota-hpc/rota/noded/reconcile"
)

const envHelper = "ROTA_TEST_HELPER"

// TestMain is the helper process when it is started as one.
func TestMain(m *testing.M) {
	if library := os.Getenv(envHelper); library != "" {
		if err := nvml.Serve(library, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// BenchmarkProfiling measures the cost of a sample of eight GPUs, each with a job that is profiled. It
// counts this daemon and its helper, with a library that stands in for NVML. Twenty samples a second
// cost so many percent of a core.
func BenchmarkProfiling(b *testing.B) {
	const devices = 8
	library, file := gputest.Build(b, false), filepath.Join(b.TempDir(), "gpus")
	var text strings.Builder
	for n := range devices {
		fmt.Fprintf(&text, "gpu GPU-%d A 0 81920 0 0\nproc %d %d 4096 80\n", n, n, n+1)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	b.Setenv(envHelper, library)
	b.Setenv(gputest.EnvWorld, file)
	helper := gpu.NewHelper(gpu.HelperConfig{Command: []string{os.Args[0]}})
	b.Cleanup(func() { _ = helper.Close() })
	spec := &jobspec.Job{Preemption: &jobspec.Preemption{Mode: jobspec.PreemptSuspend}}
	var workers []reconcile.Worker
	for n := range devices {
		w := running(int64(n+1), &api.Alloc{GPUs: []int{n}, Nodes: []string{"n1"}, Spec: spec})
		w.Desired.Request.Active.GPUs = model.WholeGPU
		workers = append(workers, w)
	}
	// The process of each container is numbered as its job.
	m := meterOf(Config{Driver: helper, ContainerOf: func(pid int) (container.ID, bool) { return wid(int64(pid)), true }},
		workers...)
	m.GPUs = gpus.New(gpus.Config{Source: helper, Log: m.Log})
	if err := m.GPUs.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	m.recordMeasures()
	m.sampleGPUs(b.Context()) // from now on all are in use
	before := cpuTime(b)
	for b.Loop() {
		if again := m.sampleGPUs(b.Context()); again > time.Second/10 {
			b.Fatalf("the next sample is in %v", again)
		}
	}
	perSample := (cpuTime(b) - before) / time.Duration(b.N)
	b.ReportMetric(float64(perSample.Microseconds()), "µs-cpu/sample")
	b.ReportMetric(perSample.Seconds()*20*100, "%core")
	for id, w := range m.workers {
		if !w.rates.window.InUse() {
			b.Errorf("%v was not sampled", id)
		}
	}
}

// cpuTime returns the processor time of this process and of its one child.
func cpuTime(b *testing.B) (all time.Duration) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		b.Skip("this kernel does not list children")
	}
	pids := []int{os.Getpid()}
	for _, path := range lists {
		text, _ := os.ReadFile(path) // a thread may have ended
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2 {
		b.Fatalf("processes are %v", pids)
	}
	for _, pid := range pids {
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil { // CLOCK_PROCESS_CPUTIME_ID of pid
			b.Fatal(err)
		}
		all += time.Duration(t.Nano())
	}
	return all
}
