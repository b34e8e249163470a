package training

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAHeartbeatTellsTheLivesOfAJob reads a gang of two whose first attempt was killed.
func TestAHeartbeatTellsTheLivesOfAJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	text := "1 0 0 1000\n1 1 0 1100\n1 0 12 2000\n1 1 12 2100\n2 1 10 2050\n2 0 10 2500\n2 0 20 3500\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Lives(path)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d attempts, %v", len(all), err)
	}
	if l := all[0]; l.Attempt != 1 || l.From != 0 || l.To != 12 || l.Alive() != 2*time.Second || len(l.Workers) != 2 {
		t.Errorf("attempt 1: %+v", l)
	}
	if l := all[1]; l.From != 10 || l.To != 20 || l.Alive() != time.Second {
		t.Errorf("attempt 2: %+v", l)
	}
	if d := all[0].Overlap(&all[1]); d != 50*time.Millisecond {
		t.Errorf("they overlap by %v", d)
	}
}
