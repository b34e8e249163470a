// Package powertest cuts the power below a program under test: what the program has not synced to
// the disk by then is lost. It stands for the disk with every single write still in its cache.
//
// The program is a part of a test, run in a process of its own. A filter of the kernel (seccomp)
// stops each of its calls of fsync and fdatasync. The test then notes the file's content, or the
// names in the directory. At the cut the process is killed, and its directory is made anew from
// those notes. Of a file, the content at its last sync is left; of a directory, the names at its
// last sync. So a file whose directory was never synced is gone, although most file systems would
// keep it. Writes to files opened with O_SYNC and syncs of a mapping are not noticed.
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

// childVariable names the directory to the process in which the program runs.
const childVariable = "ROTA_TEST_POWER"

// ackPrefix begins the lines by which that process acknowledges; other lines are its log.
const ackPrefix = "ack "

// patience is how long the program may take.
const patience = 60 * time.Second

// Cut runs program in a process of its own on an empty directory, and cuts the power when it has
// acknowledged n texts. It returns the directory as the disk has it then, and what was acknowledged.
// Acknowledge what must not be lost any more. A program that ends earlier fails the test. A test
// calls Cut once, before anything else: what stands before the call is done in that process too.
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

// runChild is the process of its own: it installs the filter and runs the program.
func runChild(dir string, program func(string, func(string)) error) {
	err := sendSyncs()
	if err == nil {
		err = program(dir, func(text string) { fmt.Println(ackPrefix + text) })
	}
	fmt.Println("the program ended:", err)
	os.Exit(1)
}

// runUntil runs test's program on dir until it has acknowledged n texts, and kills it.
func (d *disk) runUntil(n int, dir, test string) ([]string, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+strings.ReplaceAll(test, "/", "$/^")+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	cmd.ExtraFiles = []*os.File{theirs} // listenerSocket there
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	theirs.Close()
	defer func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }() // it may have ended
	defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
	listener, err := receiveListener(ours)
	if err != nil {
		text, _ := io.ReadAll(out)
		return nil, fmt.Errorf("the process sends no file for its syncs: %w: %s", err, text)
	}
	defer func() { _ = unix.Close(listener) }()
	watched := make(chan error, 1)
	go func() { watched <- d.watch(listener) }()
	acknowledged, err := collect(out, n)
	d.freeze()
	_ = cmd.Process.Kill()         // it may have ended
	late, _ := collect(out, 1<<30) // it may have acknowledged more meanwhile
	if watchErr := <-watched; err == nil {
		err = watchErr
	}
	return append(acknowledged, late...), err
}

// collect reads acknowledgements until there are n, or no more come.
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
