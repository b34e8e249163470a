package doctor

import (
	"context"
	"fmt"
	"time"

	controlconfig "github.com/rota-hpc/rota/controld/config"
)

// Bounds for a controller's lease. A follower answers a heartbeat only after earlier writes are on
// its disk, and fsyncs of a shared disk take varying time.
const (
	roundTrips  = 5 // measured connections to each controller
	leaseFactor = 4 // least ratio of the lease to an fsync plus a round trip
	leaseStep   = 50 * time.Millisecond
)

// timeouts compares the timeouts of the log with the measured delays of the disk and the network.
func (in *inspection) timeouts(ctx context.Context) []finding {
	const name = "timeouts"
	if in.quick || in.settings.controller == nil || in.settings.controllerUnknown || in.synced == 0 {
		return nil
	}
	t := in.settings.controller.Timeouts.Complete()
	trip, to := in.slowest(ctx)
	text, args := "worst fsync %s", []any{human(in.synced)}
	if to != "" {
		text, args = text+", worst connection %s (to %s)", append(args, human(trip), to)
	}
	needs := leaseFactor * (in.synced + trip)
	text, args = text+"; leader_lease is %v", append(args, t.LeaderLease)
	if needs <= t.LeaderLease {
		return fine(name, text, args...)
	}
	lease := (needs + leaseStep - 1) / leaseStep * leaseStep
	fits := controlconfig.Timeouts{Heartbeat: lease * 3 / 2, Election: lease * 3 / 2, LeaderLease: lease}
	fix := fmt.Sprintf("put data_dir on a faster disk, or set on all controllers: timeouts { %s }", fits)
	if fits.Heartbeat > 10*time.Second {
		fix = "put data_dir on a faster disk: this one is too slow for any timeouts"
	}
	return one(warn, name, fix, text+": leaders will step down although nothing has failed", args...)
}

// slowest returns the longest of several connection times to the other controllers' logs, and that
// controller. Other checks report unreachable controllers.
func (in *inspection) slowest(ctx context.Context) (worst time.Duration, to string) {
	own := value(in.settings.controller.Name, "")
	for _, c := range in.cluster.controllers {
		if c.Name == own || c.Raft == "" || c.HTTP == "" {
			continue
		}
		for range roundTrips {
			begun := in.now()
			conn, err := in.dial(ctx, "tcp", c.Raft)
			if err != nil {
				break
			}
			took := in.now().Sub(begun)
			conn.Close()
			if took >= worst {
				worst, to = took, c.Name
			}
		}
	}
	return worst, to
}
