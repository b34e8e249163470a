// Package powertest cuts the power below a program under test: everything that the program has not
// synced to disk is lost. It simulates a disk that keeps every write in its cache until an fsync.
//
// The program is a part of a test and runs in its own process. A filter of the kernel (seccomp)
// stops each of its calls of fsync and fdatasync. The test then records the file's content, or the
// names in the directory. At the cut, the test kills the process and rebuilds its directory from
// the records. A file has its content at its last sync, and a directory its names at its last sync.
// A file in a directory that was never synced is therefore lost, although most file systems would
// keep it. Writes with O_SYNC and syncs of mapped memory are not noticed.
package powertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childVariable tells the program's process which directory to use.
const childVariable = "ROTA_TEST_POWER"

// ackPrefix starts the lines with which that process acknowledges; all other lines are its log.
const ackPrefix = "ack "

// patience is the time limit of the program.
const patience = 60 * time.Second

// Cut runs program in its own process on an empty directory, and cuts the power after n
// acknowledgements. It returns the directory as it was on disk, and the acknowledged texts. The
// program must acknowledge a text once it must not be lost any more. A program that ends earlier
// fails the test. A test must call Cut first, because the statements before the call also run in
// the program's process.
func Cut(t *testing.T, n int, program func(dir string, acknowledge func(text string)) error) (string, []string) {
	t.Helper()
	if dir := os.Getenv(childVariable); dir != "" {
		runChild(dir, program)
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d := newDisk()
	defer d.close()
	acknowledged, err := d.runUntil(n, dir, t.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.restore(dir); err != nil {
		t.Fatalf("make the disk anew: %v", err)
	}
	return dir, acknowledged
}

// runChild is the main function of the program's process: it installs the filter and runs the
// program.
func runChild(dir string, program func(string, func(string)) error) {
	err := sendSyncs()
	if err == nil {
		err = program(dir, func(text string) { fmt.Println(ackPrefix + text) })
	}
	fmt.Println("the program ended:", err)
	os.Exit(1)
}

// runUntil runs the test's program on dir until it has acknowledged n texts, then kills it.
func (d *disk) runUntil(n int, dir, test string) ([]string, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+strings.ReplaceAll(test, "/", "$/^")+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	cmd.ExtraFiles = []*os.File{theirs} // fd number listenerSocket in the child
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	theirs.Close()
	defer func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }() // the process may have ended
	defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
	listener, err := receiveListener(ours)
	if err != nil {
		text, _ := io.ReadAll(out)
		return nil, fmt.Errorf("the process did not send the file for its syncs: %w: %s", err, text)
	}
	defer func() { _ = unix.Close(listener) }()
	watched := make(chan error, 1)
	go func() { watched <- d.watch(listener) }()
	acknowledged, err := collect(out, n)
	d.freeze()
	_ = cmd.Process.Kill()         // the process may have ended
	late, _ := collect(out, 1<<30) // the program may have acknowledged more meanwhile
	if watchErr := <-watched; err == nil {
		err = watchErr
	}
	return append(acknowledged, late...), err
}

// collect reads acknowledgements until it has n of them, or the stream ends.
func collect(from io.Reader, n int) ([]string, error) {
	var acknowledged []string
	var other strings.Builder
	lines := bufio.NewReaderSize(from, 1)
	for len(acknowledged) < n {
		line, err := lines.ReadString('\n')
		if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), ackPrefix); ok && err == nil {
			acknowledged = append(acknowledged, text)
		} else {
			other.WriteString(line)
		}
		if err != nil {
			return acknowledged, fmt.Errorf("%d acknowledgements came, then %w:\n%s", len(acknowledged), err, &other)
		}
	}
	return acknowledged, nil
}
