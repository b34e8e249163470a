package consensus_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/powertest"
)

// TestAPowerCutLosesNothingAcknowledged notices a raft log without fsync: a proposal was answered,
// and is not on disk. Snapshots are taken meanwhile and the log is shortened, so it notices too that
// a snapshot, or the name of its directory, is not on disk by then.
func TestAPowerCutLosesNothingAcknowledged(t *testing.T) {
	dir, acknowledged := powertest.Cut(t, 500, func(dir string, acknowledge func(string)) error {
		cfg := config(filepath.Join(dir, "data", "raft"), "127.0.0.1:0")
		cfg.SnapshotEvery = 100
		n, err := consensus.Open(cfg, newRecord("n1"))
		if err == nil {
			err = n.Bootstrap([]consensus.Member{n.Self()})
		}
		ctx := context.Background()
		if err == nil {
			_, err = n.WaitLeader(ctx)
		}
		for i := 0; err == nil; i++ {
			if _, _, err = n.Propose(ctx, fmt.Append(nil, i)); err == nil {
				acknowledge(fmt.Sprint(i))
			}
		}
		return err
	})
	_, m := mustSingle(t, filepath.Join(dir, "data", "raft"))
	if _, restored := m.numbers(); restored == 0 {
		t.Error("no snapshot was taken before the power cut")
	}
	var lost []string
	for _, data := range acknowledged {
		if !slices.Contains(m.all(), data) {
			lost = append(lost, data)
		}
	}
	if len(lost) > 0 {
		t.Errorf("%d of %d were acknowledged and are lost: %s", len(lost), len(acknowledged), lost)
	}
}
