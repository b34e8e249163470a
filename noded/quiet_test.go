package noded

import (
	"context"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/noded/gpu"
)

// TestRealGPUsAreAskedFor notices a node that has simulated GPUs although none were asked for, or the
// other way round.
func TestRealGPUsAreAskedFor(t *testing.T) {
	for sim, want := range map[int]bool{0: true, 1: false, 3: false} {
		cfg := installed(t, pkitest.New(t), pki.Node)
		cfg.SimGPUs, cfg.NVMLHelper = sim, []string{"/bin/false"}
		d := &daemon{cfg: cfg.withDefaults()}
		if err := d.loadCredential(); err != nil {
			t.Fatal(err)
		}
		if err := d.openState(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the driver is not waited for
		_ = d.newAgent(ctx)
		if _, real := d.gpus.(*gpu.Helper); real != want {
			t.Errorf("with %d simulated GPUs they come from %T", sim, d.gpus)
		}
		d.cfg.Login = true // it has made no cgroups
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestASocketThatNoUserReaches notices a socket in a directory that no user enters.
func TestASocketThatNoUserReaches(t *testing.T) {
	for socket, refused := range map[string]bool{"/var/lib/n/s": true, "/var/lib/n/run/s": true, "/var/lib/n.sock": false,
		"/var/lib/n/../s": false, "": false} {
		c := DefaultConfig()
		c.Name, c.DataDir, c.Socket = "n1", "/var/lib/n", socket
		err := c.withDefaults().Validate()
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "--socket") {
			t.Errorf("%q: %v", socket, err)
		}
	}
}
