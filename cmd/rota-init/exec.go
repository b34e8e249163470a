package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci/launch"
)

// execute turns this process, which was started beside the first one, into the requested command.
// The command has the variables, secrets and working directory of the first rank. It returns a
// shell's exit code if that cannot be.
func execute(planPath, text string) int {
	fail := func(code int, format string, args ...any) int {
		fmt.Fprintf(os.Stderr, "rota: "+format+"\n", args...)
		return code
	}
	var e launch.Exec
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return fail(125, "the description of the process to run is damaged: %v", err)
	}
	markBeside("/proc/self/oom_score_adj") // before secrets are read: then the file is root's
	plan, err := read(planPath)
	if err == nil {
		err = readSecrets(plan)
	}
	if err != nil {
		return fail(125, "%v", err)
	}
	if e.Dir != "" {
		plan.Dir, plan.Anywhere = e.Dir, false
	}
	settle(plan)
	env, dir := plan.Env, plan.Dir
	if len(plan.Ranks) > 0 { // a worker that only holds room for steps has none
		env = slices.Concat(env, plan.Ranks[0].Env)
	}
	env = slices.Concat(env, e.Env)
	args := e.Args
	if len(args) == 0 {
		args = []string{loginShell(env)}
	}
	if err := os.Chdir(dir); err != nil {
		return fail(126, "%s", startFailure(args[0], "", dir, err))
	}
	path, err := lookPath(args[0], env, dir)
	if err == nil {
		err = unix.Exec(path, args, env)
	}
	code := 126
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		code = 127
	}
	return fail(code, "%s", startFailure(args[0], path, dir, err))
}

// loginShell returns the shell that is run if nothing else is asked for: $SHELL, if it is there, else
// bash or sh.
func loginShell(env []string) string {
	own, _ := lastValue(env, "SHELL") // there may be none
	for _, shell := range []string{own, "/bin/bash"} {
		if shell != "" && unix.Access(shell, unix.X_OK) == nil {
			return shell
		}
	}
	return "/bin/sh"
}

// ownProgram is this program, as the process that starts it sees it.
const ownProgram = "/proc/self/exe"

// becomeTask has this process become a rank that knows its own id. It returns a shell's exit code if that
// cannot be.
func becomeTask(variable, path string, args []string) int {
	err := unix.Exec(path, args, append(os.Environ(), variable+"="+strconv.Itoa(os.Getpid())))
	dir, _ := os.Getwd() // it is only for the message
	fmt.Fprintf(os.Stderr, "rota-init: %s\n", startFailure(args[0], path, dir, err))
	if errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}

// markBeside gives this process the score of those that are started beside the ranks. Where that cannot be
// done, it is counted among the ranks when the kernel kills it for memory.
func markBeside(file string) {
	b, err := os.ReadFile(file)
	score, wrong := strconv.Atoi(strings.TrimSpace(string(b)))
	if err == nil && wrong == nil {
		_ = os.WriteFile(file, []byte(strconv.Itoa(launch.BesideScore(score))), 0) // see above
	}
}

// executable returns why a program cannot be executed from a directory: what the kernel would say later,
// to another process.
func executable(path, dir string) error {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &os.PathError{Op: "exec", Path: path, Err: err}
	}
	return nil
}
