package trace

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// realFile opens a public trace from the folder that ROTA_TRACES names; without it the test is
// skipped.
func realFile(t *testing.T, name string) io.Reader {
	t.Helper()
	dir := os.Getenv("ROTA_TRACES")
	if dir == "" {
		t.Skip("ROTA_TRACES does not name a folder of traces")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func realProfiles(t *testing.T) *Profiles {
	t.Helper()
	dir := filepath.Join(os.Getenv("ROTA_TRACES"), "sia-elastic", "profiles")
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.csv"))
	if err != nil || len(files) == 0 {
		t.Skipf("no profiles in %s (%v)", dir, err)
	}
	p := &Profiles{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Add(filepath.ToSlash(name), f); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	return p
}

// totals are sums by which a whole trace can be checked.
func totals(t *Trace) (last, gpuHours, coreHours int64, users int) {
	names := map[string]bool{}
	for i := range t.Jobs {
		j := &t.Jobs[i]
		names[j.Account+"/"+j.User] = true
		d := j.Demand(j.Workers)
		gpuHours += d.GPUs * j.Work
		coreHours += d.Cores * j.Work
		last = j.Submit
	}
	return last, gpuHours / gpu / hour, coreHours / hour, len(names)
}

// TestRealTraces compares the readers with what is known of the public traces. The hours were added
// up by other means.
func TestRealTraces(t *testing.T) {
	for _, test := range []struct {
		file                            string
		format                          Format
		jobs, bad, users, accounts      int
		lastSeconds, gpuHours, coreHour int64
	}{
		{"fitgpp/paper-load-set1.csv.gz", FitGpp, 65536, 0, 50, 1, 483540, 57448, 204439},
		{"fitgpp/paper-load-set2.csv.gz", FitGpp, 65536, 0, 50, 1, 478860, 57620, 203580},
		{"fitgpp/hard-load-set1.csv.gz", FitGpp, 32768, 0, 50, 1, 215700, 28727, 102157},
		{"fitgpp/gpu-bound-set1.csv.gz", FitGpp, 32768, 0, 50, 1, 202140, 35890, 82196},
		{"philly-3weeks.csv.gz", Philly, 29046, 0, 12, 12, 1813797, 273877, 273877},
		{"hpc2n-2002-prefix.swf.gz", SWF, 3145, 25, 17, 1, 4950011, 0, 139904},
		{"alibaba-openb-pods.csv.gz", OpenB, 8151, 1, 1, 1, 12901761, 51498, 698509},
		{"tiresias-60job.csv", Tiresias, 60, 0, 1, 1, 1779, 7, 7},
		{"sia-elastic/philly-1.csv", Sia, 160, 0, 1, 1, 27695, 1136, 1136},
		{"sia-elastic/saturn-2.csv", Sia, 160, 0, 1, 1, 28381, 1031, 1031},
		{"sia-elastic/newtrace-3.csv", Sia, 960, 0, 1, 1, 172732, 5362, 5362},
	} {
		t.Run(test.file, func(t *testing.T) {
			got, err := Read(realFile(t, test.file), Options{Profiles: realProfiles(t)})
			if err != nil {
				t.Fatal(err)
			}
			checkTrace(t, got)
			last, gpuHours, coreHours, users := totals(got)
			if got.Format != test.format || len(got.Jobs) != test.jobs || got.Bad != test.bad || users != test.users ||
				len(got.Accounts()) != test.accounts {
				t.Errorf("%s: %d jobs, %d bad, %d users, %d accounts; want %+v", got.Format, len(got.Jobs), got.Bad, users,
					len(got.Accounts()), test)
			}
			if last/second != test.lastSeconds || gpuHours != test.gpuHours || coreHours != test.coreHour {
				t.Errorf("last job at %d s, %d GPU hours, %d core hours; want %+v", last/second, gpuHours, coreHours, test)
			}
		})
	}
}

// TestRealNodes reads the list of nodes that goes with the pods.
func TestRealNodes(t *testing.T) {
	nodes, err := ReadNodes(realFile(t, "alibaba-openb-gpu-nodes.csv"))
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]bool{}
	for _, n := range nodes {
		models[n.GPUs[0].Model] = true
	}
	if got := Capacity(nodes).GPUs; len(nodes) != 1213 || got != 6212*gpu || len(models) != 7 {
		t.Errorf("%d nodes, %d thousandths of a GPU, %d models", len(nodes), got, len(models))
	}
}

// TestRealProfiles checks measured applications. More nodes for the same workers are not much
// faster, and every number of workers in the elastic range has a speed.
func TestRealProfiles(t *testing.T) {
	tr, err := Read(realFile(t, "sia-elastic/philly-1.csv"), Options{Profiles: realProfiles(t)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.Jobs {
		j := &tr.Jobs[i]
		for n := j.MinWorkers; n <= j.MaxWorkers; n++ {
			if rate := j.Rate(Layout{PerNode: packed(n)}); rate < FullRate/100 || rate > 20*FullRate {
				t.Errorf("%s with %d workers: rate %d", j.ID, n, rate)
			}
		}
		if rate := j.Rate(Layout{PerNode: packed(j.Workers)}); rate != FullRate {
			t.Errorf("%s with the workers asked for: rate %d", j.ID, rate)
		}
	}
}
