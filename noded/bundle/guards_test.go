package bundle

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

// TestWhatAJobChoseIsGuarded notices mounts and images of a job's choice that the shim does not look
// at: root would mount what the user may not reach.
func TestWhatAJobChoseIsGuarded(t *testing.T) {
	d, shared := testStore(t)
	image := filepath.Join(shared, "image")
	for _, dir := range []string{"image/usr", "image/etc", "data"} {
		if err := os.MkdirAll(filepath.Join(shared, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a := testAlloc(shared)
	a.Owner.UID, a.Owner.GID, a.Owner.GIDs, a.LeaseGrace = 1001, 1002, []uint32{1003, 1004}, 4321
	a.Spec.Groups[1].Tasks = a.Spec.Groups[1].Tasks[1:]
	task := &a.Spec.Groups[1].Tasks[0]
	task.Image = image
	task.Mounts = []jobspec.Mount{{Source: shared + "/data", Target: "/data"}, {Target: "/scratch", Type: "tmpfs"}}
	if os.Geteuid() != 0 {
		a.Owner.UID, a.Owner.GID = uint32(os.Geteuid()), uint32(os.Getegid())
	}
	dir, err := d.Build(t.Context(), container.ID{Job: 5, Attempt: 2, Worker: 3}, a, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := container.ReadSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := (container.User{UID: a.Owner.UID, GID: a.Owner.GID, GIDs: a.Owner.GIDs}); !reflect.DeepEqual(s.User, want) {
		t.Errorf("it runs as %+v, not %+v", s.User, want)
	}
	if s.LeaseGrace != 4321 {
		t.Errorf("the grace after its lease is %d ms", s.LeaseGrace)
	}
	want := []container.Guard{{Source: image}, {Source: image + "/etc", Target: "/etc"},
		{Source: image + "/usr", Target: "/usr"}, {Source: shared + "/data", Target: "/data", Below: []string{shared}}}
	if got := s.Tasks[0].Guards; !reflect.DeepEqual(got, want) {
		t.Errorf("guards %+v", got)
	}
}

// TestAMountThatIsCoveredIsNotCompared notices a job that cannot start because a later mount hides an
// earlier one.
func TestAMountThatIsCoveredIsNotCompared(t *testing.T) {
	d, shared := testStore(t)
	a := testAlloc(shared)
	a.Spec.Groups[1].Tasks = a.Spec.Groups[1].Tasks[1:]
	a.Spec.Groups[1].Tasks[0].Mounts = []jobspec.Mount{{Source: shared + "/a", Target: "/data"},
		{Source: shared + "/b", Target: "/data2"}}
	dir, err := d.Build(t.Context(), container.ID{Job: 5, Attempt: 2, Worker: 3}, a, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := container.ReadSettings(dir)
	if err != nil || len(s.Tasks[0].Guards) != 2 {
		t.Errorf("guards %+v, %v", s.Tasks[0].Guards, err)
	}
}

// TestAProgressFileStaysInItsDirectory notices dots that lead a progress file out of what the node
// shares.
func TestAProgressFileStaysInItsDirectory(t *testing.T) {
	d, shared := testStore(t)
	for file, want := range map[string]*container.ProgressFile{
		"p.jsonl":                     {Dir: shared, Path: "p.jsonl"},
		"sub/../p.jsonl":              {Dir: shared, Path: "p.jsonl"},
		shared + "/sub/p.jsonl":       {Dir: shared, Path: "sub/p.jsonl"},
		"../p.jsonl":                  nil,
		shared + "/../secret/p.jsonl": nil,
		shared + "2/p.jsonl":          nil,
		"/etc/passwd":                 nil,
	} {
		a := testAlloc(shared)
		a.Spec.Groups[1].Tasks = a.Spec.Groups[1].Tasks[1:]
		a.Spec.Groups[1].Tasks[0].Progress = &jobspec.Progress{File: file}
		a.Spec.Array = nil
		dir, err := d.Build(t.Context(), container.ID{Job: 5, Attempt: 2, Worker: 3}, a, nil, nil)
		if want == nil {
			if err == nil || !container.IsFinal(err) || !strings.Contains(err.Error(), "is not below a directory") {
				t.Errorf("%s: %v", file, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, err := container.ReadSettings(dir); err != nil || !reflect.DeepEqual(s.Progress, want) {
			t.Errorf("%s: %+v, %v", file, s.Progress, err)
		}
	}
}

// TestFindingsAreBounded notices a file of findings that is read whole into memory, lines that are
// half written, and findings in the wrong order.
func TestFindingsAreBounded(t *testing.T) {
	d, _ := testStore(t)
	id := container.ID{Job: 1, Attempt: 1}
	if list, err := d.Findings(id); err != nil || list != nil {
		t.Errorf("without a file: %v, %v", list, err)
	}
	path := container.FindingsPath(d.dir(id))
	line := fmt.Sprintf(`{"policy":"p","line":%q}`+"\n", strings.Repeat("x", 1000))
	write(t, path, `{"policy":"first"}`+"\n"+strings.Repeat(line, findingsLimit/len(line)+100))
	list, err := d.Findings(id)
	if err != nil || len(list) != 1+(findingsLimit-19)/len(line) || list[0].Policy != "first" {
		t.Errorf("%d findings, %v", len(list), err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, `{"policy":"a"}`+"\n"+`{"pol`)
	if list, err := d.Findings(id); err != nil || len(list) != 1 || list[0].Policy != "a" {
		t.Errorf("half a line: %v, %v", list, err)
	}
}
