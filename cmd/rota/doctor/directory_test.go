package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// remote has the machine ask a service, with these answers to "DATABASE KEY".
func remote(t *testing.T, in *inspection, answers map[string]string) {
	t.Helper()
	files(t, in, map[string]string{
		"/etc/nsswitch.conf": "passwd: files remote\ngroup: files remote\n",
		"/etc/passwd":        "root:x:0:0::/root:\nada:x:1001:1001::/home/ada:\nbob:x:1002:1002::/home/bob:\n",
		"/etc/group":         "ada:x:1001:\nwheel:x:10:ada\n",
	})
	unknown := exec.Command("sh", "-c", "exit 2").Run() // as getent says it
	in.output = func(_ context.Context, program string, args ...string) ([]byte, error) {
		if program != "getent" || len(args) != 4 || args[0] != "-s" || args[1] != "remote" {
			return nil, fmt.Errorf("%s %v", program, args)
		}
		if line, ok := answers[args[2]+" "+args[3]]; ok {
			return []byte(line + "\n"), nil
		}
		return nil, unknown
	}
}

// TestTheFilesAndTheDirectory notices each way in which a directory may say something else of a user of the
// files.
func TestTheFilesAndTheDirectory(t *testing.T) {
	const name = "directory"
	in := fake(t)
	if found := in.userDirectories(t.Context()); len(found) != 0 {
		t.Errorf("without a directory: %+v", found)
	}
	const passwd, initgroups = "ada:*:1001:1001:Ada:/home/ada:/bin/sh", "ada                  1001 10"
	for changed, c := range map[string]struct {
		line string
		want level
		text string
	}{
		"":               {"", ok, "service remote says nothing else of 2 users"},
		"passwd 1001":    {"eva:*:1001:1001::/:", bad, "number 1001 is user ada in /etc/passwd, and user eva by"},
		"passwd ada":     {"ada:*:5001:1001::/home/ada:", bad, "ada has number 1001 in /etc/passwd, and 5001 by"},
		"passwd ada ":    {"ada:*:1001:5000::/home/ada:", bad, "primary group 1001 in /etc/passwd, and 5000 by"},
		"passwd ada  ":   {"ada:*:1001:1001::/mnt/ada:", warn, "home directory /home/ada in /etc/passwd, and /mnt/ada by"},
		"initgroups ada": {"ada 1001 5000", warn, "in groups 10, 1001 in /etc/group, and in groups 1001, 5000 by service"},
	} {
		in := fake(t)
		answers := map[string]string{"passwd ada": passwd, "passwd 1001": passwd, "initgroups ada": initgroups}
		if changed != "" {
			answers[strings.TrimRight(changed, " ")] = c.line
		}
		remote(t, in, answers)
		found := in.userDirectories(t.Context())
		if len(found) == 0 || found[0].Level != c.want || !strings.Contains(found[0].Text, c.text) {
			t.Errorf("%q: %+v", changed, found)
		}
		for _, f := range found[min(1, len(found)):] { // groups follow from another primary group
			if f.Level != warn || changed != "passwd ada " {
				t.Errorf("%q: %+v as well", changed, f)
			}
		}
	}
	in = fake(t)
	remote(t, in, nil)
	expect(t, in, name, ok, "says nothing else of 2 users", "")
}

// TestADirectoryThatDoesNotAnswer: one that fails, that is slow, or whose service does not run.
func TestADirectoryThatDoesNotAnswer(t *testing.T) {
	const name = "directory"
	in := fake(t)
	remote(t, in, nil)
	in.output = func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("signal: killed") }
	expect(t, in, name, bad, "service remote of /etc/nsswitch.conf does not answer about user ada: signal: killed", "log")
	in = fake(t)
	remote(t, in, nil)
	answer, now := in.output, noon
	in.now = func() time.Time { return now }
	in.output = func(ctx context.Context, program string, args ...string) ([]byte, error) {
		now = now.Add(3100 * time.Millisecond)
		return answer(ctx, program, args...)
	}
	expect(t, in, name, warn, "service remote has taken 3.1s for an answer", "silent after 3s")
	in = fake(t)
	remote(t, in, nil)
	files(t, in, map[string]string{"/etc/nsswitch.conf": "passwd: files sss\n", "/var/lib/sss/pipes/x": ""})
	expect(t, in, name, bad, "service sss of /etc/nsswitch.conf", "start the service")
	t.Chdir(in.path("/var/lib/sss/pipes")) // the path of a socket has a limit
	l, err := net.Listen("unix", "nss")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if len(filepath.Join(in.root, "var/lib/sss/pipes/nss")) < 108 {
		in.output = func(context.Context, string, ...string) ([]byte, error) { return nil, nil }
		expect(t, in, name, ok, "service sss says nothing else", "")
	}
}

// TestTwoUsersOfOneNumber are two users for the machine and one for the kernel.
func TestTwoUsersOfOneNumber(t *testing.T) {
	in := fake(t)
	files(t, in, map[string]string{"/etc/passwd": "a:x:1001:1::/:\nb:x:1001:1::/:\na:x:1001:1::/:\n" +
		"sys:x:7:1::/:\nold:x:7:1::/:\n"})
	expect(t, in, "numbers", warn, "number 1001 is all of a, b here", "number of its own")
}
