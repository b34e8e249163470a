package fsm

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// memoryJobs is how many pending jobs memory is measured with.
const memoryJobs = 100_000

// memorySpec is a job as sbatch users submit by the thousand: with variables, and a script, that no
// other has.
func memorySpec(i int, distinctName bool) *jobspec.Job {
	spec := testSpec(1, 1)
	spec.Name, spec.Workdir, spec.SubmitDir, spec.SubmitHost = "train", "/home/alice/project", "/home/alice/project",
		"login1"
	if distinctName {
		spec.Name = fmt.Sprint("train-", i)
	}
	t := &spec.Groups[0].Tasks[0]
	spec.Groups[0].Name, t.Name, t.Command = "main", "main", nil
	t.Env = map[string]string{}
	for k := range 8 {
		t.Env[fmt.Sprintf("VARIABLE_%d", k)] = fmt.Sprintf("value-%d-of-%d", k, i)
	}
	script := fmt.Sprintf("#!/bin/bash\n# job %d\n", i)
	t.Script = script + strings.Repeat("#", 1024-len(script))
	spec.Default()
	return spec
}

// pendingMemory submits jobs by way of the log and returns what each keeps on the heap, in bytes.
func pendingMemory(tb testing.TB, jobs int, distinctName bool) int64 {
	s := New(cluster.DefaultConfig())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := 0; i < jobs; i += 1000 {
		c := SubmitJobs{Owner: alice}
		for k := range 1000 {
			c.Jobs = append(c.Jobs, memorySpec(i+k, distinctName))
		}
		data, err := Encode(Entry{Stamp: model.Stamp{At: model.Instant(i + 1)}, Command: c})
		if err != nil {
			tb.Fatal(err)
		}
		e, err := Decode(data)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := s.Apply(s.Index()+1, e); err != nil {
			tb.Fatal(err)
		}
		s.View()
	}
	runtime.GC()
	runtime.GC() // the first leaves the buffers that encoding/json has pooled
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(s)
	return (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(jobs)
}

// BenchmarkMemoryPerPendingJob reports what a pending job keeps in memory beside its script of 1
// KiB.
func BenchmarkMemoryPerPendingJob(b *testing.B) {
	for name, distinct := range map[string]bool{"same-name": false, "distinct-names": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(float64(pendingMemory(b, memoryJobs, distinct)-1024), "B/job")
			}
		})
	}
}
