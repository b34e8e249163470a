package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestJudge(t *testing.T) {
	var acknowledged []submission
	for _, job := range []string{"1 a", "2 b", "3 c", "3 d", "4 e", "5 f"} {
		acknowledged = append(acknowledged, submission{id: job})
	}
	known := map[string]bool{"1 a": true, "2 b": true, "3 d": true, "4 x": true, "5 f": true, "6 g": true}
	ran := "1 a\n2 b\n3 d\n2 b\n4 x\n4 e\n6 g\n6 g\n"
	want := judgement{
		jobs:    6,
		lost:    2, // c and e: their ids are those of d and x
		reused:  1, // 3
		doubled: 1, // b; g was not acknowledged
		never:   2, // c and f
	}
	if got := judge(acknowledged, known, ran); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestQueued(t *testing.T) {
	s := &slurmctld{prefix: "rota-bench-7-"}
	const queue = "rota-bench-7-1-1 Priority\nheld JobHeldUser\nrota-bench-7-1-2 launch failed requeued held\n" +
		"rota-bench-7-2-9 None\nrota-bench-8-1-1 Priority\nrota-bench-7-3-1 JobHeldAdmin\n"
	if waiting, held := s.queued(queue); waiting != 2 || held != 2 {
		t.Errorf("%d jobs wait and %d are held, want 2 and 2", waiting, held)
	}
}

func TestAServiceIsFoundAndKilled(t *testing.T) {
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("pidof"); err != nil {
		t.Skip("there is no pidof")
	}
	name := fmt.Sprintf("rotatestd%d", os.Getpid())
	program := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(program, shell, 0o755); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(program, "-c", "read line; exit 0")
	daemon.Env = []string{"CONF=/etc/x"}
	input, err := daemon.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	d, err := findDaemon(t.Context(), name)
	if err != nil || d.pid != daemon.Process.Pid || !slices.Equal(d.env, daemon.Env) {
		t.Errorf("%+v, %v", d, err)
	}
	if want := []string{program, "read line; exit 0"}; !slices.Equal(d.argv, want) { // -c clears slurmctld's state
		t.Errorf("arguments %q, want %q", d.argv, want)
	}
	d.pid = daemon.Process.Pid
	if err := d.kill(t.Context()); err != nil { // it stays a zombie until Wait
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := daemon.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Errorf("it ended with %v", err)
	}
	if d, err := findDaemon(t.Context(), name); err == nil {
		t.Errorf("found after its end: %+v", d)
	}
}

func TestAServiceIsStartedUntilItStarts(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	const script = `echo start >> "$STARTS"; test -e "$STARTS.second" || { touch "$STARTS.second"; exit 1; }`
	d := service{argv: []string{"/bin/sh", "-c", script}, env: append(os.Environ(), "STARTS="+starts)}
	if err := d.restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(starts); err != nil || string(text) != "start\nstart\n" {
		t.Errorf("it was started %q, %v", text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.argv = []string{"/bin/false"}
	if err := d.restart(ctx); err != nil {
		t.Errorf("after the end: %v", err)
	}
}
