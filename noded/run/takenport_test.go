package run

import (
	"net"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
)

// TestTakenPort finds a port at which something listens, also on one address only, before the worker
// that was given it does. It notices that a port of another worker counts.
func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	for _, c := range []struct {
		what  string
		alloc api.Alloc
		want  int
	}{
		{"the port of its gang", api.Alloc{MasterPort: taken}, taken},
		{"the port of its gang on another node", api.Alloc{Worker: 1, MasterPort: taken}, 0},
		{"its own port", api.Alloc{Worker: 1, Port: taken}, taken},
		{"no port", api.Alloc{}, 0},
	} {
		if got, err := takenPort(&c.alloc); got != c.want || (err == nil) != (c.want == 0) {
			t.Errorf("%s: %d, %v", c.what, got, err)
		}
	}
	l.Close()
	if got, err := takenPort(&api.Alloc{MasterPort: taken}); got != 0 || err != nil {
		t.Errorf("a port that is free again: %d, %v", got, err)
	}
}
