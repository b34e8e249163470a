package follow

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/controllers"
)

// fakeNode notes what a Follower tells it, in order. It implements Node.
type fakeNode struct {
	told []string
	kept []string
}

func (n *fakeNode) Apply(a *api.NodeAllocs, _ time.Time, l Lease) {
	n.told = append(n.told, "apply "+strconv.FormatUint(a.Index, 10)+" "+l.Term.String())
}

func (n *fakeNode) Extend(Lease, map[container.ID]bool) { n.told = append(n.told, "extend") }

func (n *fakeNode) KeepAll(unseen bool) {
	n.told = append(n.told, "keep all "+strconv.FormatBool(unseen))
}

func (n *fakeNode) Kept() []string                { return n.kept }
func (n *fakeNode) KeepsAny() bool                { return len(n.kept) > 0 }
func (n *fakeNode) Known() (known, live []string) { return nil, nil }

// registers is a controller that takes every registration.
type registers struct{ Controller }

func (registers) Register(context.Context, string, api.RegisterRequest) (*api.RegisterResponse, error) {
	return &api.RegisterResponse{}, nil
}

// noGPUs is the inventory of a node without GPUs.
type noGPUs struct{}

func (noGPUs) ForRegistration() []model.GPU { return nil }
func (noGPUs) SetUnregistered()             {}
func (noGPUs) NeedRegistration() bool       { return false }

var errFault = errors.New("injected fault")

// TestAnswersInOrder notices an answer that is applied with the wrong lease. It also notices the
// answer of a state that went back, and a state that went back for ever.
func TestAnswersInOrder(t *testing.T) {
	n := &fakeNode{}
	f := New(Config{Node: n, Log: slog.New(slog.DiscardHandler)})
	for _, c := range []struct {
		index uint64
		back  bool
	}{{5, false}, {5, false}, {7, false}, {6, true}, {6, false}} {
		err := f.apply(&api.NodeAllocs{Index: c.index, LeaseMS: 60_000}, Now(), time.Now())
		if errors.Is(err, errWentBack) != c.back || err != nil && !c.back {
			t.Errorf("index %d: %v", c.index, err)
		}
	}
	want := []string{"apply 5 1m0s", "apply 5 1m0s", "apply 7 1m0s", "keep all false", "apply 6 1m0s"}
	if !slices.Equal(n.told, want) {
		t.Errorf("the node was told %q", n.told)
	}
	if _, echo := f.position(); echo.Witnesses != "0" {
		t.Errorf("without witnesses it says %+v", echo)
	}
}

// TestANoticeEnds notices what rota nodes says for too long, or not long enough.
func TestANoticeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Config{Node: &fakeNode{}, Log: slog.New(slog.DiscardHandler)})
		f.KeepAll("it went back")
		if !f.noticeChanged() {
			t.Error("the notice is not new")
		}
		f.noticed = f.notice
		time.Sleep(noticeFor) // of the bubble
		if f.noticeChanged() || f.notice == "" {
			t.Error("it ends too early")
		}
		time.Sleep(time.Nanosecond)
		if !f.noticeChanged() || f.notice != "" {
			t.Errorf("it does not end: %q", f.notice)
		}
	})
}

// TestWhatIsSaidOfARetry notices a node without a controller that fills its log with warnings, and
// failures that are not told.
func TestWhatIsSaidOfARetry(t *testing.T) {
	var said strings.Builder
	options := &slog.HandlerOptions{Level: slog.LevelDebug}
	f := New(Config{Log: slog.New(slog.NewTextHandler(&said, options))})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), controllers.ErrNone, "level=DEBUG"}, {t.Context(), errFault, "level=WARN"}, {ended, errFault, ""},
	} {
		said.Reset()
		f.LogRetry(c.ctx, "cannot do it", c.err, time.Second)
		if !strings.Contains(said.String(), c.want) || (c.want == "") != (said.Len() == 0) {
			t.Errorf("%v: it says %q", c.err, said.String())
		}
	}
}

func TestALeaseCountsSleep(t *testing.T) {
	now := Now()
	l := Lease{AskedAt: now, Term: time.Minute}
	if d := time.Until(l.End()); d > time.Minute || d < 50*time.Second {
		t.Errorf("awake it ends in %v", d)
	}
	now.boot -= int64(40 * time.Second) // the machine was suspended for that long since then
	l.AskedAt = now
	if d := time.Until(l.End()); d > 20*time.Second || d < 10*time.Second {
		t.Errorf("after 40 s of sleep it ends in %v", d)
	}
	if !(Lease{}).End().IsZero() {
		t.Error("no lease has an end")
	}
}

// TestARegistrationIsLogged notices a log that does not show an operator that a node has joined, and
// with what.
func TestARegistrationIsLogged(t *testing.T) {
	var said bytes.Buffer
	f := New(Config{Self: model.Node{Name: "n1", Cores: 8}, Control: registers{}, GPUs: noGPUs{},
		Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err := f.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "msg=registered node=n1 cores=8 gpus=0") {
		t.Errorf("it says %q", &said)
	}
}

// TestTheGenerationIsKeptOverARestart, for its cluster.
func TestTheGenerationIsKeptOverARestart(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLineage(dir, "a")
	if err != nil || l.Current().Number != 0 {
		t.Fatal(l, err)
	}
	g := generation.Generation{Number: 7, ID: "00000000000000aa"}
	if err := l.Follow(g); err != nil {
		t.Fatal(err)
	}
	for cluster, want := range map[string]generation.Generation{"a": g, "b": {}} {
		l, err := OpenLineage(dir, cluster)
		if err != nil || l.Current() != want {
			t.Errorf("cluster %s: %v, %v", cluster, l.Current(), err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, generationFile), []byte("{\"num"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLineage(dir, "a"); err == nil || !strings.Contains(err.Error(), "is not a cluster generation") {
		t.Errorf("a file that was cut off: %v", err)
	}
}
