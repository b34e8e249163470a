package trace

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// realFile opens a public trace from the folder that ROTA_TRACES names; without it the test is skipped.
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

// TestRealTraces holds the readers against what is known of the public traces.
func TestRealTraces(t *testing.T) {
	tests := []struct {
		file      string
		format    Format
		jobs, bad int
		last      int64 // submit time of the last job, ms
		gpuHours  int64 // of all jobs
		coreHours int64
		users     int
		accounts  int
	}{
		{"fitgpp/paper-load-set1.csv.gz", FitGpp, 65536, 0, 0, 0, 0, 50, 1},
		{"philly-3weeks.csv.gz", Philly, 29046, 0, 0, 0, 0, 12, 12},
		{"hpc2n-2002-prefix.swf.gz", SWF, 3145, 25, 0, 0, 0, 17, 1},
		{"alibaba-openb-pods.csv.gz", OpenB, 8151, 1, 0, 0, 0, 1, 1},
		{"tiresias-60job.csv", Tiresias, 60, 0, 0, 0, 0, 1, 1},
		{"sia-elastic/philly-1.csv", Sia, 160, 0, 0, 0, 0, 1, 1},
		{"sia-elastic/newtrace-3.csv", Sia, 960, 0, 0, 0, 0, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			got, err := Read(realFile(t, test.file), Options{Profiles: realProfiles(t)})
			if err != nil {
				t.Fatal(err)
			}
			users, gpuMS, coreMS := map[string]bool{}, int64(0), int64(0)
			for i := range got.Jobs {
				j := &got.Jobs[i]
				users[j.User] = true
				gpuMS += j.Demand(j.Workers).GPUs * (j.Work / 1000)
				coreMS += j.Demand(j.Workers).Cores * j.Work
			}
			last := got.Jobs[len(got.Jobs)-1].Submit
			t.Logf("%s jobs %d bad %d last %d users %d accounts %d gpuh %d coreh %d %+v", got.Format, len(got.Jobs), got.Bad, last, len(users), len(got.Accounts()), gpuMS/3600000, coreMS/3600000, got.Jobs[0])
			for _, l := range got.Skipped[:min(3, len(got.Skipped))] {
				t.Log(l)
			}
			if got.Format != test.format || len(got.Jobs) != test.jobs || got.Bad != test.bad || len(users) != test.users || len(got.Accounts()) != test.accounts {
				t.Errorf("got another trace")
			}
		})
	}
}
