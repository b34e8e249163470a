package input_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// TestPathsThatAreNowhere: a submission names all paths of the job that are wrong on this host, in
// one go. It does not name paths that this host cannot judge. It is submitted all the same.
func TestPathsThatAreNowhere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file.txt")
	closed := filepath.Join(dir, "closed")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	submit := func(flags ...string) (stderr string) {
		t.Helper()
		s := rotatest.Session{Commands: groups, T: t, Addr: takesJobs(t).URL, Stdin: script}
		got := s.Run(append([]string{"submit", "--export=NONE"}, append(flags, "-")...)...)
		if got.Code != 0 || got.Stdout != "Submitted batch job 17\n" {
			t.Fatalf("%q: %+v", flags, got)
		}
		return got.Stderr
	}
	for _, flags := range [][]string{
		{"--chdir=" + dir, "--output=new/%x/out", "--container-image=" + dir},
		{"--chdir=/no-such-disk/here", "--container-image=/no-such-disk/image", "--error=/no-such-disk/err"},
		{"--chdir=" + dir, "--output=/dev/null"},
	} {
		if got := submit(flags...); strings.Contains(got, "this host") || strings.Contains(got, "directory:") {
			t.Errorf("%q: %s", flags, got)
		}
	}
	got := submit("--chdir="+dir+"/gone", "--container-image="+file, "--output="+closed+"/new/%j.out",
		"--error="+file+"/%j.err")
	want := []string{"the working directory " + dir + "/gone does not exist on this host", "the image " + file +
		" is not a directory", "the output's directory " + file + " is not a directory"}
	if os.Getuid() != 0 {
		want = append(want, "the output's directory "+closed+" cannot be written by you")
	}
	for _, text := range want {
		if !strings.Contains(got, text) {
			t.Errorf("%q is missing in %s", text, got)
		}
	}
}

// TestPathsOfAnotherUser: where the user cannot write as which jobs of root run is said when they are
// submitted.
func TestPathsOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it submits as root")
	}
	const user = "nobody"
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}, RunAs: user})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: script}
	for path, want := range map[string]bool{"/etc/out": true, "/etc/new/%j/out": true, "/tmp/%j.out": false} {
		got := s.Run("submit", "--export=NONE", "--chdir=/tmp", "--output="+path, "-")
		const text = "the output's directory /etc cannot be written by the job's user " + user +
			" on this host: the job fails unless that user may write there on its nodes"
		if got.Code != 0 || strings.Contains(got.Stderr, text) != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
}
