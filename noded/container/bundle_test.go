package container

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFilesOfABundleHaveTheirOwners notices a file that a job may change, or that another user may
// read: the settings, the plan with the environment, and the script.
func TestFilesOfABundleHaveTheirOwners(t *testing.T) {
	old := unix.Umask(0o022)
	defer unix.Umask(old)
	owner := User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if owner.UID == 0 {
		owner = User{UID: 23456, GID: 23457}
	}
	for _, tasks := range [][]Task{{{Name: "a"}}, {{Name: "a"}, {Name: "b"}}} {
		dir := filepath.Join(t.TempDir(), "c")
		b := Bundle{Settings: Settings{User: owner, Tasks: tasks}, Limits: "limits"}
		bundles := []string{dir}
		if len(tasks) > 1 {
			bundles = []string{TaskDir(dir, 0), TaskDir(dir, 1)}
		}
		for range tasks {
			b.Tasks = append(b.Tasks, TaskBundle{Config: "config", Plan: "plan", Script: "script"})
		}
		for range 2 { // it may be called again
			if err := WriteBundle(dir, b); err != nil {
				t.Fatal(err)
			}
		}
		roots, users := uint32(os.Getuid()), owner.UID
		type file struct {
			uid, mode uint32
			text      string
		}
		want := map[string]file{dir + "/shim.json": {roots, 0o600, ""}}
		if len(tasks) > 1 {
			want[dir+"/limits.json"] = file{roots, 0o600, `"limits"`}
		}
		for _, at := range bundles {
			want[at+"/config.json"] = file{roots, 0o600, `"config"`}
			want[at+"/run/launch.json"] = file{users, 0o400, `"plan"`}
			want[at+"/run/script"] = file{users, 0o500, "script"}
			want[at+"/progress/progress.jsonl"] = file{users, 0o644, ""}
			want[at+"/run/progress.jsonl"] = file{roots, 0o644, ""}
			want[at+"/run/init"] = file{roots, 0o644, ""}
			want[at+"/run"] = file{roots, 0o755, ""}
			want[at+"/run/secrets"] = file{roots, 0o755, ""}
		}
		for path, w := range want {
			var st unix.Stat_t
			if err := unix.Stat(path, &st); err != nil || st.Uid != w.uid || w.uid == owner.UID && st.Gid != owner.GID ||
				st.Mode&0o7777 != w.mode {
				t.Errorf("%s is of %d:%d with mode %o, %v", path, st.Uid, st.Gid, st.Mode, err)
			}
			if w.text == "" {
				continue
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != w.text {
				t.Errorf("%s holds %q, %v", path, text, err)
			}
		}
	}
}

// TestANoticeReachesEveryTask notices a notice that is lost or that a reader sees half written.
func TestANoticeReachesEveryTask(t *testing.T) {
	for n, runs := range map[int][]string{1: {"run"}, 2: {"tasks/0/run", "tasks/1/run"}} {
		dir := t.TempDir()
		b := Bundle{Settings: Settings{Tasks: make([]Task, n)}, Tasks: make([]TaskBundle, n)}
		b.Settings.User = User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
		if err := WriteBundle(dir, b); err != nil {
			t.Fatal(err)
		}
		for _, reason := range []string{"preempt", "lease"} {
			if err := WriteNotice(dir, Notice{Reason: reason, Attempt: 4, Signal: "SIGTERM"}); err != nil {
				t.Fatal(err)
			}
			for _, run := range runs {
				text, err := os.ReadFile(filepath.Join(dir, run, "notice.json"))
				var got Notice
				if err != nil || json.Unmarshal(text, &got) != nil || got.Reason != reason || got.Attempt != 4 {
					t.Errorf("%s holds %q, %v", run, text, err)
				}
				info, err := os.Stat(filepath.Join(dir, run, "notice.json"))
				if err != nil || info.Mode().Perm() != 0o644 {
					t.Errorf("%v, %v", info, err)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, run, "*.tmp")); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			}
			for range 2 { // what is not there is gone already
				if err := errors.Join(RemoveNotice(dir, "another"), RemoveNotice(dir, reason)); err != nil {
					t.Error(err)
				}
			}
			for _, run := range runs {
				if _, err := os.Stat(filepath.Join(dir, run, "notice.json")); !os.IsNotExist(err) {
					t.Errorf("%s has a notice that was taken back: %v", run, err)
				}
			}
		}
	}
}

// TestALinkInABundleIsNotFollowed notices a file of root's that is written through a link of a job.
func TestALinkInABundleIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "notice")
	for _, at := range []string{path, path + ".tmp"} {
		if err := os.WriteFile(victim, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, at); err != nil {
			t.Fatal(err)
		}
		if err := replaceFile(path, 0o644, []byte("new")); err != nil {
			t.Error(err)
		}
		if text, _ := os.ReadFile(victim); string(text) != "old" {
			t.Errorf("by %s the victim holds %q", at, text)
		}
	}
	if text, _ := os.ReadFile(path); string(text) != "new" {
		t.Errorf("it holds %q", text)
	}
}

// TestANoticeIsNeverHalfThere notices a notice that is replaced in two steps: a job that reads it
// meanwhile finds none, or a part of one.
func TestANoticeIsNeverHalfThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notice.json")
	texts := []string{strings.Repeat("a", 1000), strings.Repeat("b", 1000)}
	if err := replaceFile(path, 0o644, []byte(texts[0])); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var errs []error
		for i := range 400 {
			errs = append(errs, replaceFile(path, 0o644, []byte(texts[i%2])))
		}
		done <- errors.Join(errs...)
	}()
	for {
		if text, err := os.ReadFile(path); err != nil || !slices.Contains(texts, string(text)) {
			t.Fatalf("a reader finds %d bytes, %v", len(text), err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}
