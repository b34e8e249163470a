package controld

import (
	"testing"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/config"
)

// The defaults that the configuration file documents are those of the log.
func TestTheDefaultTimeoutsAreThoseOfTheLog(t *testing.T) {
	log := consensus.DefaultConfig()
	if got := config.DefaultTimeouts(); got != (config.Timeouts{Heartbeat: log.Heartbeat, Election: log.Election,
		LeaderLease: log.LeaderLease}) {
		t.Errorf("%+v", got)
	}
}
