package doctor

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

// slow makes the machine a controller beside another one, with a disk and a network that take so
// long.
func slow(t *testing.T, config string, sync, trip time.Duration) *inspection {
	t.Helper()
	in := fake(t)
	controller(t, in, config)
	in.cluster.err = nil
	in.cluster.controllers = []api.Controller{{Name: "c1", HTTP: "h:1", Raft: "h:2"},
		{Name: "c2", HTTP: "i:1", Raft: "i:2"}}
	in.syncs = func(string, int, time.Duration) ([]time.Duration, error) {
		return []time.Duration{time.Millisecond, sync, 2 * time.Millisecond}, nil
	}
	now := noon
	in.now = func() time.Time { return now }
	in.dial = func(_ context.Context, _, addr string) (net.Conn, error) {
		if addr == "i:2" {
			now = now.Add(trip)
		}
		a, b := net.Pipe()
		b.Close()
		return a, nil
	}
	return in
}

func TestTimeoutsAreCarriedByDiskAndNetwork(t *testing.T) {
	const ms = time.Millisecond
	expect(t, slow(t, `name = "c1"`, 40*ms, 10*ms), "timeouts", ok, "(to c2); leader_lease is 200ms", "")
	expect(t, slow(t, `name = "c1"`, 41*ms, 10*ms), "timeouts", warn, "leaders will step down",
		`timeouts { heartbeat = "375ms", election = "375ms", leader_lease = "250ms" }`)
	expect(t, slow(t, `name = "c1"`, 40*ms, 11*ms), "timeouts", warn, "leaders will step down", `leader_lease = "250ms"`)
	expect(t, slow(t, "name = \"c1\"\ntimeouts {\n heartbeat = \"600ms\"\n}", 90*ms, 10*ms), "timeouts", ok,
		"leader_lease is 400ms", "")
	expect(t, slow(t, `name = "c1"`, 2*time.Second, 10*ms), "timeouts", warn, "", "too slow for any timeouts")
	in := slow(t, `name = "c1"`, 41*ms, 10*ms)
	in.quick = true
	for _, f := range in.report(t.Context()).Items {
		if f.Check == "timeouts" {
			t.Errorf("quick: %+v", f)
		}
	}
}

func TestAControllerWithoutItsLogIsShown(t *testing.T) {
	in := slow(t, `name = "c1"`, 1, 1)
	in.cluster.controllers[1].State = api.ControllerNoLog
	expect(t, in, "c2", bad, "has lost its log", "leader brings it up to date")
	in.cluster.controllers[1].State = api.ControllerLearner
	expect(t, in, "c2", warn, "it has no vote yet", "wait")
}
