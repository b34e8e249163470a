package mps

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/requirements"
)

// fakeMPS is a control program that notes how it was called, and runs until it is told to quit.
const fakeMPS = `#!/bin/sh
if [ "$1" != -f ]; then
	read -r command
	echo "told $command" >>"$NOTES"
	kill "$(cat "$CUDA_MPS_PIPE_DIRECTORY/../pid")"
	exit
fi
echo "$* $(env | grep ^CUDA_ | sort | tr '\n' ' ')" >>"$NOTES"
touch /dev/shm/a-server
while :; do sleep 0.05; done
`

// newFakeMPS returns a service whose control program is fake, and the file of its notes. It ends with
// the test.
func newFakeMPS(t *testing.T) (*Service, string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the control daemon has a /dev/shm of its own")
	}
	dir := t.TempDir()
	notes, program := filepath.Join(dir, "notes"), filepath.Join(dir, requirements.MPSProgram)
	text := strings.ReplaceAll(fakeMPS, "$NOTES", notes)
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	m := New("n1", dir, slog.New(slog.DiscardHandler))
	m.dir, m.shm, m.program = filepath.Join(dir, "run"), filepath.Join(dir, "shm"), program
	if err := m.Prepare(true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pid := m.find(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return m, notes
}

// begin runs the service as a node daemon does. The function that it returns is its end.
func (m *Service) begin(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return func() {
		cancel()
		<-ended
	}
}

// eventually waits for a condition that another process brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not so that %s", what)
		}
	}
}

func lines(path string) []string {
	text, _ := os.ReadFile(path) // it may not be there yet
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// TestMPSOutlivesTheDaemon notices a control daemon that ends with the node daemon, so that jobs lose their
// GPU, a second one beside the first, one that is not started again, and one that stays when it is not
// wanted any more.
func TestMPSOutlivesTheDaemon(t *testing.T) {
	m, notes := newFakeMPS(t)
	used := filepath.Join(m.shm, "of-a-job")
	if err := os.WriteFile(used, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := m.begin(t)
	eventually(t, "it is started", func() bool { return len(lines(notes)) == 1 })
	want := "-f -multiuser-server CUDA_MPS_LOG_DIRECTORY=" + m.logs + " CUDA_MPS_PIPE_DIRECTORY=" + m.pipes() + " "
	if got := lines(notes)[0]; got != want {
		t.Errorf("it is called with\n%q, want\n%q", got, want)
	}
	eventually(t, "it has its own /dev/shm", func() bool {
		_, err := os.Stat(filepath.Join(m.shm, "a-server"))
		return err == nil
	})
	first := m.find()
	stop()
	next := *m // as another node daemon makes it
	stop = next.begin(t)
	eventually(t, "it is looked for", func() bool { return next.find() == first })
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is started again", func() bool { pid := m.find(); return pid != 0 && pid != first })
	eventually(t, "it has begun", func() bool { return len(lines(notes)) == 2 })
	for _, empty := range []bool{false, true} {
		if err := m.Prepare(empty); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(used); (err == nil) == empty {
			t.Errorf("with no worker here: %t, the memory that a job has made: %v", empty, err)
		}
	}
	stop()
	m.Quit(t.Context())
	eventually(t, "it has ended", func() bool { return m.find() == 0 })
	m.Quit(t.Context())
	if got := lines(notes); len(got) != 3 || got[2] != "told quit" {
		t.Errorf("it was called %q", got)
	}
}

// TestMPSThatCannotStart notices an end of the node daemon, with all its other jobs, because a driver
// knows MPS less well.
func TestMPSThatCannotStart(t *testing.T) {
	m, _ := newFakeMPS(t)
	text := "#!/bin/sh\necho unknown option\nexit 1\n"
	if err := os.WriteFile(m.program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	m.log = slog.New(slog.NewTextHandler(said, nil))
	stop := m.begin(t)
	eventually(t, "it is tried twice", func() bool {
		return strings.Count(strings.Join(lines(said.Name()), "\n"), "log="+m.output()) >= 2
	})
	eventually(t, "it is told why", func() bool { return strings.Join(lines(m.output()), ";") == "unknown option" })
	stop()
}

// TestAStrangerIsNotTheControlDaemon notices another process that has got the number of one that ended.
func TestAStrangerIsNotTheControlDaemon(t *testing.T) {
	m, _ := newFakeMPS(t)
	for _, text := range []string{"1", "0", "-1", "", "x"} {
		if err := os.WriteFile(m.pidFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if pid := m.find(); pid != 0 {
			t.Errorf("%q: process %d", text, pid)
		}
	}
}

// TestADirectoryOfMPSThatAnotherUserMade: any user can be faster with the name of the directory in
// memory. What it has made is moved aside, and never used.
func TestADirectoryOfMPSThatAnotherUserMade(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: the directory is another user's")
	}
	for _, kind := range []string{"directory", "link", "file", "own"} {
		dir := t.TempDir()
		m := New("n1", dir, slog.New(slog.DiscardHandler))
		m.dir, m.shm = filepath.Join(dir, "run"), filepath.Join(dir, "shm")
		var err error
		switch kind {
		case "directory", "own":
			err = os.Mkdir(m.shm, 0o777)
		case "link":
			err = os.Symlink(t.TempDir(), m.shm)
		case "file":
			err = os.WriteFile(m.shm, nil, 0o666)
		}
		if err == nil && kind != "own" {
			err = os.Lchown(m.shm, 65534, 65534)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Prepare(true); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		info, err := os.Lstat(m.shm)
		if err != nil || !info.IsDir() || !ownedByUs(info) {
			t.Errorf("%s: the directory is %v, %v", kind, info, err)
		}
		aside, _ := filepath.Glob(m.shm + ".of-another-user.*")
		if len(aside) != map[bool]int{true: 0, false: 1}[kind == "own"] {
			t.Errorf("%s: moved aside: %v", kind, aside)
		}
	}
}
