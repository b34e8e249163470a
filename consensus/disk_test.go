package consensus_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/consensustest"
)

// config returns the configuration of a member with the default timing.
func config(dir, addr string) consensus.Config {
	cfg := consensus.DefaultConfig()
	cfg.Name, cfg.Dir, cfg.Addr = "n1", dir, addr
	return cfg
}

// single opens a member that is a cluster by itself.
func single(dir string) (*consensus.Node, *record, error) {
	m := &record{name: "n1"}
	n, err := consensus.Open(config(dir, "127.0.0.1:0"), m)
	if err != nil {
		return nil, nil, err
	}
	if !n.HasState() {
		err = n.Bootstrap([]consensus.Member{n.Self()})
	}
	return n, m, err
}

// mustSingle opens it, waits until it leads and has applied its log, and stops it with the test.
func mustSingle(t *testing.T, dir string) (*consensus.Node, *record) {
	t.Helper()
	n, m, err := single(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Shutdown() })
	waitSingle(t, n)
	return n, m
}

func waitSingle(t *testing.T, n *consensus.Node) {
	t.Helper()
	if _, err := n.WaitLeader(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if err := n.Verify(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
}

// filled makes a directory with ten proposals in it.
func filled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "raft")
	n, _ := mustSingle(t, dir)
	for i := range 10 {
		if _, _, err := n.Propose(withTimeout(t), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Shutdown(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// refused expects Open to fail with want.
func refused(t *testing.T, dir string, want error) {
	t.Helper()
	n, _, err := single(dir)
	if err == nil {
		n.Shutdown()
	}
	if !errors.Is(err, want) || !strings.Contains(err.Error(), dir) {
		t.Errorf("open: %v, want %q and the directory", err, want)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Run("newer version", func(t *testing.T) {
		dir := filled(t)
		write(t, filepath.Join(dir, "version"), `{"format":2}`)
		refused(t, dir, consensus.ErrNewer)
	})
	t.Run("torn version", func(t *testing.T) {
		dir := filled(t)
		write(t, filepath.Join(dir, "version"), `{"for`)
		refused(t, dir, consensus.ErrCorrupt)
	})
	t.Run("version missing, although a log exists", func(t *testing.T) {
		dir := filled(t)
		if err := os.Remove(filepath.Join(dir, "version")); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, consensus.ErrCorrupt)
	})
	t.Run("log cut short", func(t *testing.T) {
		dir := filled(t)
		if err := os.Truncate(filepath.Join(dir, "log.bolt"), 3*4096); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, consensus.ErrCorrupt)
	})
	t.Run("log empty", func(t *testing.T) {
		dir := filled(t)
		write(t, filepath.Join(dir, "log.bolt"), "")
		refused(t, dir, consensus.ErrCorrupt)
	})
	t.Run("both headers damaged", func(t *testing.T) {
		dir := filled(t)
		damage(t, dir, 0)
		damage(t, dir, 1)
		refused(t, dir, consensus.ErrCorrupt)
	})
	t.Run("held by another", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "raft")
		mustSingle(t, dir)
		refused(t, dir, consensus.ErrLocked)
	})
	t.Run("held by one that ends", func(t *testing.T) {
		dir := filled(t)
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, func() { f.Close() })
		mustSingle(t, dir)
	})
	t.Run("not a directory", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		write(t, path, "")
		refused(t, filepath.Join(path, "raft"), consensus.ErrNotWritable)
	})
	t.Run("port in use", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		cfg := config(t.TempDir(), ln.Addr().String())
		if _, err := consensus.Open(cfg, newRecord("n1")); !errors.Is(err, consensus.ErrPortInUse) ||
			!strings.Contains(err.Error(), cfg.Addr) {
			t.Errorf("open: %v", err)
		}
	})
	t.Run("address that cannot be dialled", func(t *testing.T) {
		if _, err := consensus.Open(config(t.TempDir(), "0.0.0.0:0"), newRecord("n1")); err == nil {
			t.Error("open accepted 0.0.0.0")
		}
	})
	t.Run("bad timing", func(t *testing.T) {
		cfg := config(t.TempDir(), "127.0.0.1:0")
		cfg.Heartbeat, cfg.Election = time.Second, time.Millisecond
		if _, err := consensus.Open(cfg, newRecord("n1")); err == nil || !strings.Contains(err.Error(), "Election") {
			t.Errorf("open: %v does not name the election", err)
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// damage breaks one of the two headers of the log, as a torn write would.
func damage(t *testing.T, dir string, page int64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "log.bolt"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("torn"), page*int64(os.Getpagesize())+40); err != nil {
		t.Fatal(err)
	}
}

// newestPage tells which header was written last.
func newestPage(t *testing.T, dir string) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "log.bolt"))
	if err != nil {
		t.Fatal(err)
	}
	txid := func(page int) uint64 { return binary.LittleEndian.Uint64(text[page*os.Getpagesize()+64:]) }
	if txid(1) > txid(0) {
		return 1
	}
	return 0
}

// TestTornHeader breaks the header that the last commit wrote. The log then ends one commit
// earlier, and goes on from there.
func TestTornHeader(t *testing.T) {
	dir := filled(t)
	damage(t, dir, newestPage(t, dir))
	n, m := mustSingle(t, dir)
	got := m.all()
	if len(got) < 9 || got[8] != "8" {
		t.Fatalf("after the torn write: %v, want all but the last at least", got)
	}
	if _, _, err := n.Propose(withTimeout(t), []byte("next")); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFull fills the disk under a member. It must stop with a message that names the directory,
// and everything it has acknowledged must be there when there is room again.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: mounting a small tmpfs needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("rota-test", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("skipped: a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	n, _, err := single(filepath.Join(dir, "raft"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Shutdown() }) // before the unmount, whatever fails
	waitSingle(t, n)
	acked, last := fillUp(t, n)
	t.Logf("%d acknowledged, then: %v", len(acked), last)
	var uncertain *consensus.UncertainError
	if !errors.As(last, &uncertain) && !errors.Is(last, consensus.ErrStopped) {
		t.Errorf("the last proposal got %v", last)
	}
	var fatal *consensus.FatalError
	select {
	case err := <-n.Failed():
		if !errors.As(err, &fatal) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
			t.Errorf("failed with %v, want the directory and no space left", err)
		}
	case <-withTimeout(t).Done():
		t.Fatal("the member goes on with a full disk")
	}
	_, _, err = n.Propose(withTimeout(t), []byte("x"))
	if !errors.Is(err, consensus.ErrStopped) || !errors.As(err, &fatal) {
		t.Errorf("propose after the end: %v", err)
	}
	if err := n.Shutdown(); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := syscall.Mount("rota-test", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	again, m, err := single(filepath.Join(dir, "raft"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Shutdown() })
	waitSingle(t, again)
	if wrong := m.missing(acked); len(wrong) > 0 {
		t.Errorf("lost: %v", wrong)
	}
	if err := again.Shutdown(); err != nil {
		t.Error(err)
	}
}

// fillUp proposes until that fails, and returns what was acknowledged and the failure.
func fillUp(t *testing.T, n *consensus.Node) (map[string]bool, error) {
	acked := map[string]bool{}
	padding := make([]byte, 50_000)
	random := rand.NewChaCha8([32]byte{}) // nothing that could be compressed
	for i := range 10_000 {
		random.Read(padding)
		data := fmt.Sprintf("%d %s", i, padding)
		if _, _, err := n.Propose(withTimeout(t), []byte(data)); err != nil {
			return acked, err
		}
		acked[data] = true
	}
	t.Fatal("the disk does not fill up")
	return nil, nil
}

// childDir makes the test binary a member that proposes until it is killed.
const childDir = "ROTA_CONSENSUS_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, proposeForEver(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// proposeForEver prints every acknowledged proposal.
func proposeForEver(dir string) error {
	n, m, err := single(dir)
	if err != nil {
		return err
	}
	if _, err := n.WaitLeader(context.Background()); err != nil {
		return err
	}
	if err := n.Verify(context.Background()); err != nil {
		return err
	}
	for i := len(m.all()); ; i++ {
		if _, _, err := n.Propose(context.Background(), fmt.Append(nil, i)); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// TestKillNine kills a process in the middle of its proposals, several times over one directory.
func TestKillNine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	acked := map[string]bool{}
	for round := range 4 {
		killAfter(t, dir, 30+20*round, acked)
	}
	_, m := mustSingle(t, dir)
	if wrong := m.missing(acked); len(wrong) > 0 {
		t.Errorf("lost: %v", wrong)
	}
	t.Logf("%d acknowledged over 4 kills", len(acked))
}

// killAfter starts the child, reads count acknowledgements and kills it; what it had printed until
// then counts too.
func killAfter(t *testing.T, dir string, count int, acked map[string]bool) {
	t.Helper()
	cmd := exec.CommandContext(withTimeout(t), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	seen := 0
	for lines.Scan() {
		acked[lines.Text()] = true
		if seen++; seen == count {
			cmd.Process.Kill()
		}
	}
	cmd.Wait()
	if seen < count {
		t.Fatalf("the child ended by itself after %d", seen)
	}
}

// TestALeaderWhoseDiskHangsGivesWay is about a disk that neither writes nor fails.
func TestALeaderWhoseDiskHangsGivesWay(t *testing.T) {
	c := consensustest.Start(t, 3, newRecord, func(cfg *consensus.Config) { cfg.Stall = 5 * time.Second })
	old := c.WaitLeader()
	n := c.Node(old)
	release := sync.OnceFunc(n.HangDisk())
	t.Cleanup(release) // before the members are stopped
	hung := make(chan error, 1)
	go func() {
		_, _, err := n.Propose(context.Background(), []byte("hung"))
		hung <- err
	}()
	select {
	case err := <-n.Failed():
		if !strings.Contains(err.Error(), "does not answer") || !strings.Contains(err.Error(), c.Dir(old)) {
			t.Errorf("failed with %v", err)
		}
	case <-withTimeout(t).Done():
		t.Fatal("it leads on")
	}
	var uncertain *consensus.UncertainError
	if err := <-hung; !errors.As(err, &uncertain) {
		t.Errorf("the proposal got %v", err)
	}
	c.Eventually("another leader", func() bool {
		for _, name := range c.Names() {
			if m := c.Node(name); name != old && m.Verify(withTimeout(t)) == nil {
				_, _, err := m.Propose(withTimeout(t), []byte("goes on"))
				return err == nil
			}
		}
		return false
	})
	// The rest was reported by Failed.
	if err := n.Shutdown(); err == nil || !strings.HasSuffix(err.Error(), "stays locked: the disk does not answer") {
		t.Errorf("shutdown while the disk hangs: %v", err)
	}
}
