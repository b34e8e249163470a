package container

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSpawnBesideItsSocket starts a program from its copy in memory when the descriptor of that
// copy comes right after the highest one that the child inherits and lower ones are free: this is
// where the runtime puts a pipe of its own in the child before it runs the program.
func TestSpawnBesideItsSocket(t *testing.T) {
	const above = 200
	image, err := sealedCopy("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs = moved(t, theirs, above)
	defer theirs.Close()
	p := &pool{image: moved(t, image, int(theirs.Fd())+1)}
	defer p.image.Close()
	if p.image.Fd() != theirs.Fd()+1 {
		t.Fatalf("descriptors %d and %d", theirs.Fd(), p.image.Fd())
	}
	if err := p.command(theirs).Run(); err != nil {
		t.Error(err)
	}
}

// TestAWaitingShimThatWasKilled shows that such a shim gets no container.
func TestAWaitingShimThatWasKilled(t *testing.T) {
	p := &pool{cfg: Config{ShimPath: "/bin/true"}, ready: make(chan *shimProcess, 1)}
	dead, err := p.startShim()
	if err != nil {
		t.Fatal(err)
	}
	<-dead.done
	p.ready <- dead
	taken, err := p.takeShim()
	if err != nil {
		t.Fatal(err)
	}
	if taken == dead {
		t.Error("take returned the killed shim")
	}
	taken.conn.Close()
	<-taken.done
	p.close()
}

// moved gives a file the first free descriptor from one on.
func moved(t *testing.T, f *os.File, from int) *os.File {
	t.Helper()
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, from)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}
