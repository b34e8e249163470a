package consensus

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/rota-hpc/rota/consensus/entry"
	"github.com/rota-hpc/rota/consensus/mark"
)

// The tests here ask each guard on both sides of its bound, and with each of its conditions turned
// alone, without a cluster.

// bare is a node of which only the channels are there.
func bare() *Node {
	return &Node{proposals: make(chan *proposal, entry.GroupCountMax), changed: make(chan struct{}),
		stopping: make(chan struct{}), stopped: make(chan struct{}), failed: make(chan error, 1)}
}

// quick ends soon.
func quick(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// silentCluster is n2 of a cluster of so many whose other members do not run, so that it has no leader.
func silentCluster(t *testing.T, members int) *Node {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Name, cfg.Dir, cfg.Addr = "n2", filepath.Join(t.TempDir(), "raft"), "127.0.0.1:0"
	n, err := Open(cfg, counting{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Shutdown() })
	all := []Member{n.Self()}
	for i := 1; i <= members; i++ {
		if i != 2 {
			all = append(all, Member{Name: fmt.Sprint("n", i), Log: "log", Addr: fmt.Sprint("127.0.0.1:", i)})
		}
	}
	if err := n.Bootstrap(all); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAQuorumConfirms: this member and so many others are the majority of all, and one fewer is not.
func TestAQuorumConfirms(t *testing.T) {
	for members, need := range map[int]int{2: 1, 3: 1, 4: 2, 5: 2} { // others
		n := silentCluster(t, members)
		asked := time.Now()
		others := []string{"n1#log", "n3#log", "n4#log", "n5#log"}
		for _, id := range others[:need-1] {
			n.trans.followers.note(id, asked)
		}
		n.trans.followers.note("n9#log", asked) // no member
		if err := n.untilConfirmed(quick(t), asked); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of %d members %d others confirm: %v", members, need-1, err)
		}
		n.trans.followers.note(others[need-1], asked)
		if err := n.untilConfirmed(quick(t), asked); err != nil {
			t.Errorf("of %d members %d others confirm: %v", members, need, err)
		}
		if members != 3 {
			continue
		}
		for gone, want := range map[string]int{"n1": 0, "n3": 1, "n9": 1} { // how many go before n2
			if turn, votes := n.turn(Member{Name: gone}); turn != want || !votes {
				t.Errorf("without %s it is n2's turn after %d, votes %t", gone, turn, votes)
			}
		}
		if _, votes := n.turn(Member{Name: "n2"}); votes {
			t.Error("a member that is gone has a turn")
		}
		if unmet := n.unmet(); len(unmet) != 2 {
			t.Errorf("it has not met %v", unmet)
		}
		n.known.meet("n1#other")
		n.known.meet("n3#log")
		if unmet := n.unmet(); len(unmet) != 1 || unmet[0].Name != "n1" {
			t.Errorf("it has not met %v", unmet)
		}
		for what, err := range map[string]error{"without a log": n.AddVoter(t.Context(), Member{Name: "n4"}),
			"of another log": n.AddLearner(t.Context(), Member{Name: "n1", Log: "x"})} {
			if err == nil || what != "without a log" && !errors.Is(err, ErrNameTaken) {
				t.Errorf("a member %s is added: %v", what, err)
			}
		}
		var not *NotLeaderError
		for what, err := range map[string]error{"adds": n.AddVoter(t.Context(), Member{Name: "n4", Log: "x"}),
			"removes": n.Remove(t.Context(), "n1"), "moves": n.AddVoter(t.Context(), Member{Name: "n1", Log: "log"})} {
			if !errors.As(err, &not) {
				t.Errorf("one that does not lead %s a member: %v", what, err)
			}
		}
		if err := n.Remove(t.Context(), "n9"); err != nil {
			t.Errorf("no member of that name: %v", err)
		}
		if _, _, err := n.Propose(t.Context(), nil); !errors.As(err, &not) || not.Leader.Name != "" {
			t.Errorf("without a leader: %v", err)
		}
		if !n.LastContact().IsZero() || n.IsLeader() {
			t.Errorf("it has heard of a leader at %v", n.LastContact())
		}
	}
}

// TestWhenALeadershipIsReady: not before it is, and not after it has ended.
func TestWhenALeadershipIsReady(t *testing.T) {
	for name, c := range map[string]struct{ leads, ready, ended, want bool }{
		"it does not lead": {false, false, false, false}, "it is not ready": {true, false, false, false},
		"it is ready": {true, true, false, true}, "it has ended": {true, true, true, false},
	} {
		n := bare()
		r := &leadership{ready: make(chan struct{})}
		r.ctx, r.cancel = context.WithCancelCause(t.Context())
		if c.leads {
			n.leadership = r
		}
		if c.ready {
			close(r.ready)
		}
		if c.ended {
			r.cancel(ErrLeadershipLost)
		}
		if got, err := n.awaitLeadership(quick(t)); (got == r) != c.want || (err == nil) != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		err   error
		ended bool // the leadership, before run returns
		want  error
	}{"an error": {mine, false, mine}, "an error of the end": {mine, true, nil}, "an early return": {nil, false, nil}} {
		r := &leadership{}
		r.ctx, r.cancel = context.WithCancelCause(t.Context())
		returned := make(chan struct{})
		var over bool
		go func() {
			<-returned
			time.Sleep(20 * time.Millisecond)
			over = true
			r.cancel(ErrLeadershipLost)
		}()
		err := leadOnce(t.Context(), r, func(ctx context.Context) error {
			if c.ended {
				r.cancel(ErrLeadershipLost)
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), ErrLeadershipLost) {
					t.Errorf("%s: it ended because of %v", name, context.Cause(ctx))
				}
			}
			close(returned)
			return c.err
		})
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if c.err == nil && !over {
			t.Errorf("%s: it is called again while the leadership goes on", name)
		}
	}
	n := alone(t)
	n.Shutdown()
	n.mu.Lock()
	n.leadership = nil
	n.mu.Unlock()
	if n.setLeadership(true); n.leadership != nil {
		t.Error("a member that has stopped leads")
	}
}

// TestHowProposalsAreGathered: up to so many bytes, without those that were withdrawn, and for a moment
// longer if more are likely.
func TestHowProposalsAreGathered(t *testing.T) {
	of := func(size int, state int32) *proposal {
		p := &proposal{data: make([]byte, size), done: make(chan struct{})}
		p.state.Store(state)
		return p
	}
	for name, c := range map[string]struct {
		sizes  []int
		gone   int // the number of one that was withdrawn; -1: none
		enough int
		want   int
	}{
		"one": {[]int{1}, -1, 0, 1}, "all that wait": {[]int{1, 1, 1}, -1, 0, 3},
		"half": {[]int{entry.GroupBytesMax / 2, entry.GroupBytesMax/2 - 1, 1, 1}, -1, 0, 3},
		"full": {[]int{entry.GroupBytesMax, 1}, -1, 0, 1}, "nearly full": {[]int{entry.GroupBytesMax - 1, 1, 1}, -1, 0, 2},
		"withdrawn": {[]int{1, 1, 1}, 1, 0, 2}, "the first withdrawn": {[]int{1, 1}, 0, 0, 1},
		"more are likely, and do not come": {[]int{1, 1}, -1, 5, 2},
		"too many":                         {make([]int, entry.GroupCountMax+1), -1, 0, entry.GroupCountMax},
	} {
		n := bare()
		var first *proposal
		for i, size := range c.sizes {
			p := of(size, waiting)
			if i == c.gone {
				p = of(size, withdrawn)
			}
			if i == 0 {
				first = p
			} else {
				n.proposals <- p
			}
		}
		got := n.collectGroup(first, c.enough)
		if len(got) != c.want || slices.ContainsFunc(got, func(p *proposal) bool { return p.state.Load() != sent }) {
			t.Errorf("%s: %d proposals, want %d", name, len(got), c.want)
		}
		if len(contents(got)) != c.want {
			t.Errorf("%s: the contents of %d", name, len(contents(got)))
		}
	}
	n := bare()
	late := of(1, waiting)
	go func() { n.proposals <- late }()
	if got := n.collectGroup(of(1, waiting), 2); len(got) == 1 {
		<-n.proposals // it came too late
	} else if len(got) != 2 {
		t.Errorf("%d proposals", len(got))
	}
	p := of(1, sent)
	p.finish(7, 3, nil)
	p.finish(8, 4, errors.New("twice"))
	if p.result != 7 || p.index != 3 || p.err != nil {
		t.Errorf("answered twice: %v at %d, %v", p.result, p.index, p.err)
	}
	unsent := of(1, withdrawn)
	if unsent.finish(7, 3, nil); unsent.result != nil {
		t.Error("a proposal that was withdrawn is answered")
	}
	entry := make([]byte, 8)
	other := make([]byte, 8)
	for name, c := range map[string]struct {
		of, l []byte
		want  bool
	}{"its own": {entry, entry, true}, "another of this length": {entry, other, false}, "a part of it": {entry,
		entry[:7], false},
		"none is on its way": {nil, entry, false}} {
		n := bare()
		n.proposals <- of(1, waiting)
		if c.of != nil {
			n.inFlight.Store(&batch{data: c.of})
		}
		got := n.inFlightBatch(&raft.Log{Data: c.l})
		if (got != nil) != c.want || got != nil && got.waiting.Load() != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestWhatBecomesOfACall: of one that is withdrawn, that is answered in the same moment, and that is out.
func TestWhatBecomesOfACall(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	var uncertain *UncertainError
	n := bare()
	p := &proposal{done: make(chan struct{})}
	if _, _, err := n.await(gone, p); !errors.Is(err, context.Canceled) || errors.As(err, &uncertain) ||
		p.state.Load() != withdrawn {
		t.Errorf("one that waits: %v", err)
	}
	p = &proposal{done: make(chan struct{})}
	p.state.Store(sent)
	if _, _, err := n.await(gone, p); !errors.As(err, &uncertain) || !errors.Is(err, context.Canceled) {
		t.Errorf("one that is out: %v", err)
	}
	p.finish(7, 9, nil)
	for range 20 { // whichever of the two is seen first
		if got, index, err := n.await(gone, p); got != 7 || index != 9 || err != nil {
			t.Errorf("one that was answered: %v at %d, %v", got, index, err)
		}
	}
	close(n.stopped)
	if _, _, err := n.await(t.Context(), &proposal{done: make(chan struct{})}); !errors.Is(err, ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
	for name, c := range map[string]struct {
		fatal error
		err   error
		want  error
		not   error
	}{
		"lost":               {nil, raft.ErrLeadershipLost, ErrLeadershipLost, ErrStopped},
		"lost by its disk":   {errStalled, raft.ErrLeadershipLost, errStalled, ErrLeadershipLost},
		"restored meanwhile": {nil, raft.ErrAbortedByRestore, ErrLeadershipLost, ErrStopped},
		"shut down":          {nil, raft.ErrRaftShutdown, ErrStopped, ErrLeadershipLost},
		"something else":     {nil, os.ErrPermission, os.ErrPermission, ErrStopped},
	} {
		n := bare()
		n.fatal = c.fatal
		err := n.translate(c.err)
		unknown := errors.Is(c.err, raft.ErrLeadershipLost) || errors.Is(c.err, raft.ErrAbortedByRestore)
		if !errors.Is(err, c.want) || errors.Is(err, c.not) || errors.As(err, &uncertain) != unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		err    error
		leader bool // it is not, and says so
	}{"confirmed": {nil, false}, "lost": {ErrLeadershipLost, true}, "uncertain": {&UncertainError{Cause: errStalled},
		true},
		"something else": {os.ErrPermission, false}} {
		n := alone(t)
		var not *NotLeaderError
		if err := n.unconfirmed(c.err); errors.As(err, &not) != c.leader || !c.leader && !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for of, name := range map[string]bool{"n1": true, "": false} {
		if text := (&NotLeaderError{Leader: Member{Name: of, Addr: "a"}}).Error(); strings.Contains(text,
			"the leader is") != name {
			t.Errorf("the leader %q: %s", of, text)
		}
	}
}

// TestWhatStopsOnce: the first reason counts, and what comes after the end changes nothing.
func TestWhatStopsOnce(t *testing.T) {
	n := alone(t)
	first := &FatalError{Dir: n.cfg.Dir, Op: "one", Err: errStalled}
	n.stop(first)
	n.stop(&FatalError{Op: "two"})
	n.fail("three", errors.New("x"))
	if !errors.Is(n.fatalError(), errStalled) || len(n.failed) != 1 || n.isStoppingNow() {
		t.Errorf("it stopped because of %v, %d reports", n.fatalError(), len(n.failed))
	}
	n.refuse(&LogError{Dir: n.cfg.Dir, Kind: ErrDiverged, Text: "x"})
	if _, err := os.Stat(filepath.Join(n.cfg.Dir, refusedFile)); err == nil {
		t.Error("a member that had stopped refuses its log")
	}
	if err := n.release(); !errors.Is(err, errStalled) {
		t.Errorf("the directory of a write that hangs is given back: %v", err)
	}
	closed := alone(t)
	if closed.fail("x", errLogClosed); closed.fatalError() != nil {
		t.Errorf("what comes after the end is a reason: %v", closed.fatalError())
	}
	if err := closed.Shutdown(); err != nil {
		t.Error(err)
	}
	closed.fail("x", errors.New("late"))
	if closed.fatalError() != nil || closed.Shutdown() != nil || closed.Abort() != nil {
		t.Errorf("after its end it fails: %v", closed.fatalError())
	}
	if closed.markStopping() {
		t.Error("it stops a second time")
	}
}

// TestOtherTimeoutsAreSaidOnce warns of each once, and again when they have changed.
func TestOtherTimeoutsAreSaidOnce(t *testing.T) {
	var text bytes.Buffer
	n := bare()
	n.log = slog.New(slog.NewTextHandler(&text, nil))
	for _, timing := range []string{"slow", "slow", "fast", "fast"} {
		n.otherTiming("n2#b", timing)
	}
	n.otherTiming("n3#c", "fast")
	if got := strings.Count(text.String(), "different timeouts"); got != 3 {
		t.Errorf("warned %d times:\n%s", got, text.String())
	}
}

// plain are connections without a hello.
type plain struct{ net.Listener }

func (p plain) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	_, addr, _ := strings.Cut(string(target), "/")
	return net.DialTimeout("tcp", addr, timeout)
}

// transport returns one over loopback, and where it listens.
func transport(t *testing.T, silent *bool, find func(string) (string, bool)) (serialTransport, raft.ServerAddress) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	inner := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: plain{ln}, MaxPool: 1,
		Timeout: 5 * time.Second, MsgpackUseNewTimeFormat: true})
	t.Cleanup(func() { inner.Close() })
	stopped := make(chan struct{})
	close(stopped) // a request that fails says so at once
	return serialTransport{inner, find, newConfirmations(), newWitness(), make(chan raft.RPC),
		func() bool { return *silent }, stopped}, raft.ServerAddress(ln.Addr().String())
}

// TestWhatAnswersShow goes through answers of a peer: only a success says that it follows, or how far it
// has come.
func TestWhatAnswersShow(t *testing.T) {
	silent := false
	a, _ := transport(t, &silent, nil)
	b, addr := transport(t, &silent, nil)
	var answer any
	var failure error
	asked := 0
	var mu sync.Mutex // guards these three
	go func() {
		for rpc := range b.NetworkTransport.Consumer() {
			mu.Lock()
			asked++
			a, f := answer, failure
			mu.Unlock()
			rpc.Respond(a, f)
		}
	}()
	next := func(with any, err error) (before int) {
		mu.Lock()
		defer mu.Unlock()
		before, asked, answer, failure = asked, 0, with, err
		return before
	}
	const id = "n2#b"
	members := []Member{{Name: "n2", Log: "b"}}
	entries := []*raft.Log{{Term: 4, Index: 10}}
	for name, c := range map[string]struct {
		answer any
		err    error
		seen   bool
	}{
		"a success": {&raft.AppendEntriesResponse{Success: true}, nil, true},
		"no":        {&raft.AppendEntriesResponse{}, nil, false},
		"an error":  {&raft.AppendEntriesResponse{Success: true}, errors.New("x"), false},
	} {
		a.followers, a.known = newConfirmations(), newWitness()
		next(c.answer, c.err)
		begun := time.Now()
		err := a.AppendEntries(id, addr, &raft.AppendEntriesRequest{Term: 4, Entries: entries},
			new(raft.AppendEntriesResponse))
		count, _ := a.followers.since(begun, members)
		if (err != nil) != (c.err != nil) || (count == 1) != c.seen || (a.known.of(id).Last == 10) != c.seen {
			t.Errorf("entries, %s: %v, %d confirm, it is at %v", name, err, count, a.known.of(id))
		}
	}
	for name, c := range map[string]struct {
		granted bool
		err     error
		silent  bool
		seen    bool
	}{"granted": {true, nil, false, true}, "refused": {false, nil, false, false}, "an error": {true, errors.New("x"),
		false, false},
		"on probation": {true, nil, true, false}} {
		a.known, silent = newWitness(), c.silent
		next(&raft.RequestVoteResponse{Granted: c.granted}, c.err)
		resp := new(raft.RequestVoteResponse)
		_ = a.RequestVote(id, addr, &raft.RequestVoteRequest{Term: 7}, resp)
		n := next(&raft.RequestPreVoteResponse{Granted: c.granted}, c.err)
		if want := (mark.Mark{Term: 7, Vote: 7}); (a.known.of(id) == want) != c.seen || (n == 0) != c.silent ||
			c.silent && resp.Granted {
			t.Errorf("a vote, %s: it is at %v, asked %d", name, a.known.of(id), n)
		}
		pre := new(raft.RequestPreVoteResponse)
		_ = a.RequestPreVote(id, addr, &raft.RequestPreVoteRequest{Term: 7}, pre)
		if n := next(nil, nil); (n == 0) != c.silent || c.silent && pre.Granted || !c.silent && c.err == nil &&
			pre.Granted != c.granted {
			t.Errorf("a vote to come, %s: asked %d, granted %t", name, n, pre.Granted)
		}
		silent = false
	}
	for _, success := range []bool{true, false} {
		a.known = newWitness()
		next(&raft.AppendEntriesResponse{Success: success}, nil)
		p, err := a.AppendEntriesPipeline(id, addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 4, Entries: entries},
			new(raft.AppendEntriesResponse)); err != nil {
			t.Fatal(err)
		}
		if f := <-p.Consumer(); f.Response().Success != success || (a.known.of(id).Last == 10) != success {
			t.Errorf("entries by the pipeline, success %t: it is at %v", success, a.known.of(id))
		}
		for range 2 {
			if err := p.Close(); err != nil {
				t.Errorf("a pipeline is closed, maybe again: %v", err)
			}
		}
	}
	found, _ := transport(t, &silent, func(name string) (string, bool) { return "new:1", name == "n2" })
	for _, c := range []struct {
		of   serialTransport
		id   raft.ServerID
		want raft.ServerAddress
	}{{a, id, "n2#b/old:1"}, {found, id, "n2#b/new:1"}, {found, "n3#c", "n3#c/old:1"}} {
		if got := c.of.at(c.id, "old:1"); got != c.want {
			t.Errorf("%s is dialled at %s, want %s", c.id, got, c.want)
		}
	}
}

// TestAddressesThatPeersDial goes through what can be configured.
func TestAddressesThatPeersDial(t *testing.T) {
	actual := &net.TCPAddr{IP: net.ParseIP("127.0.0.1"), Port: 777}
	for configured, want := range map[string]string{"": "127.0.0.1:777", "host:5": "host:5", "host:0": "host:777",
		"10.0.0.1:5": "10.0.0.1:5", "[fd00::1]:0": "[fd00::1]:777", "0.0.0.0:5": "", "[::]:5": "", ":5": "", "host": ""} {
		if got, err := advertised(configured, actual); string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", configured, got, err)
		}
	}
	s := &stream{conns: map[*conn]struct{}{}}
	if _, err := s.Dial("n1", time.Second); err == nil || !strings.Contains(err.Error(), "does not name a member") {
		t.Errorf("a target without an address: %v", err)
	}
	x, y := net.Pipe()
	defer y.Close()
	s.closed = true
	if _, err := s.track(x); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection after the end: %v", err)
	}
	if _, err := x.Write(nil); !errors.Is(err, os.ErrClosed) && err == nil {
		t.Error("it is left open")
	}
}

// TestWhatTheLogSaysOfPromises: a cut of another length says nothing, the last entry counts, and so does
// what a snapshot has.
func TestWhatTheLogSaysOfPromises(t *testing.T) {
	cut := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 9), 50)
	for name, c := range map[string]struct {
		cut     []byte
		entries int
		want    mark.Mark
		bad     bool
	}{"nothing": {nil, 0, mark.Mark{}, false}, "entries": {nil, 2, mark.Mark{LastTerm: 4, Last: 2}, false},
		"a cut":       {cut, 2, mark.Mark{LastTerm: 9, Last: 50}, false},
		"a cut alone": {cut, 0, mark.Mark{LastTerm: 9, Last: 50}, false},
		"a short cut": {cut[:15], 2, mark.Mark{LastTerm: 4, Last: 2}, false}} {
		d, err := openDirectory(filepath.Join(t.TempDir(), "raft"), "")
		if err != nil {
			t.Fatal(err)
		}
		if c.cut != nil {
			if err := d.log.Set(cutKey, c.cut); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.log.StoreLogs(entries(entry.Chain{Known: true}, 1, []string{"a", "b"}[:c.entries]...)); err != nil {
			t.Fatal(err)
		}
		p, err := readPromises(d.path, d.log)
		if err != nil || p.made != c.want {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		g := &guard{fail: func(string, error) {}}
		for what, err := range map[string]error{"good": nil, "no entry": raft.ErrLogNotFound,
			"no key": raftboltdb.ErrKeyNotFound} {
			if got := g.read("x", err); !errors.Is(got, err) || g.dead.Load() {
				t.Errorf("reading, %s: %v, dead %t", what, got, g.dead.Load())
			}
		}
		failed := ""
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.fail = func(op string, _ error) { failed = op }
			_ = g.read("read it", errors.New("x"))
			failed = "it goes on"
		}()
		if <-done; failed != "read it" || !g.dead.Load() {
			t.Errorf("after a read that failed: %q, dead %t", failed, g.dead.Load())
		}
		d.close()
	}
	dir := t.TempDir()
	for text, want := range map[string]error{`{"kind":"diverged","text":"x"}`: ErrDiverged,
		`{"kind":"rolled-back","text":"x"}`: ErrRolledBack,
		`{"kind":"odd","text":"x"}`:         ErrCorrupt, `x`: ErrCorrupt, ``: ErrCorrupt} {
		if err := os.WriteFile(filepath.Join(dir, refusedFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkRefused(dir); !errors.Is(err, want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if checkRefused(t.TempDir()) != nil || markRefused(&LogError{Dir: dir, Kind: errStalled}) == nil {
		t.Error("a log that is not refused is, or one for no reason")
	}
}

// TestSnapshotsOfOtherFormats: what begins otherwise, is newer, or has too long a header.
func TestSnapshotsOfOtherFormats(t *testing.T) {
	frame := func(magic, size uint32, text string) string {
		b := binary.LittleEndian.AppendUint32(nil, magic)
		return string(binary.LittleEndian.AppendUint32(b, size)) + text
	}
	good := `{"format":1,"applied":7}`
	long := good + strings.Repeat(" ", maxHeaderSize-len(good))
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"good": {frame(skippableFrame, uint32(len(good)), good), nil}, "the longest": {frame(skippableFrame, maxHeaderSize,
			long), nil},
		"too long":          {frame(skippableFrame, maxHeaderSize+1, long+" "), ErrCorrupt},
		"another beginning": {frame(skippableFrame+1, uint32(len(good)), good), ErrCorrupt},
		"cut short":         {frame(skippableFrame, uint32(len(good))+1, good), ErrCorrupt}, "empty": {"", ErrCorrupt},
		"no JSON": {frame(skippableFrame, 1, "x"), ErrCorrupt}, "newer": {frame(skippableFrame, 12, `{"format":2}`),
			ErrNewer},
	} {
		h, err := readHeader(strings.NewReader(c.text))
		if !errors.Is(err, c.want) || err == nil && h.Applied != 7 {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	a := &adapter{due: make(chan struct{}, 1), every: 3}
	for i, due := range []int{0, 0, 1, 1} {
		if a.countEntries(1, 10); len(a.due) != due {
			t.Errorf("after %d entries of 3 a snapshot is due: %d", i+1, len(a.due))
		}
	}
	if a.meanSize() != 10 || a.entries != 4 || a.entriesSize != 40 {
		t.Errorf("%d entries of %d bytes, mean %d", a.entries, a.entriesSize, a.meanSize())
	}
	if (&adapter{entriesSize: 9}).meanSize() != 9 {
		t.Error("the mean size of no entries")
	}
}

// TestWhatAWitnessRemembers: which log answers, over a restart too, and what has not changed is not written.
func TestWhatAWitnessRemembers(t *testing.T) {
	w := newWitness()
	m := Member{Name: "n2", Log: "b"}
	for _, c := range []struct {
		id, by raft.ServerID
		lost   bool
	}{{"n2#b", "n2#c", true}, {"n2#b", "n2#b", false}, {"n2#b", "n2#c", true}, {"n2#b", "n3#c", false}} {
		if w.answered(c.id, c.by); true {
			if _, lost := w.otherLog(m); lost != c.lost {
				t.Errorf("%s answers to %s: lost %t", c.by, c.id, lost)
			}
		}
	}
	w.answered("n2#b", "n2#c")
	if _, lost := w.otherLog(Member{Name: "n2", Log: "c"}); lost {
		t.Error("the log that answers is lost")
	}
	if _, lost := w.otherLog(Member{Name: "n4", Log: "c"}); lost {
		t.Error("a member that was never called has lost its log")
	}
	w.meet("n2#b")
	w.meet("n2#b")
	w.meet("n3#c")
	if len(w.news) != 1 || !w.hasMet("n2#b") || !w.hasMet("n3#c") || w.hasMet("n2#c") {
		t.Errorf("%d news, met %v", len(w.news), w.met)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, witnessFile)
	w.save(dir)
	if _, err := os.Stat(file); err == nil {
		t.Error("nothing has changed, and it is written")
	}
	w.note("n2#b", mark.Mark{Term: 3})
	w.save(dir)
	os.Remove(file + "-")
	again := newWitness()
	if again.load(dir); again.of("n2#b") != (mark.Mark{Term: 3}) {
		t.Errorf("after a restart: %v", again.of("n2#b"))
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	w.note("n2#b", mark.Mark{Term: 2}) // no news
	w.save(dir)
	if _, err := os.Stat(file); err == nil {
		t.Error("what was known is written again")
	}
}

// TestTimeoutsAreThoseOfTheConfiguration notices a timeout that a site has set and that raft does not get.
func TestTimeoutsAreThoseOfTheConfiguration(t *testing.T) {
	n := silentCluster(t, 3)
	n.cfg.Heartbeat, n.cfg.Election, n.cfg.LeaderLease = 1100*time.Millisecond, 1300*time.Millisecond, 700*time.Millisecond
	c := n.raftConfig(nil)
	if c.HeartbeatTimeout != n.cfg.Heartbeat || c.ElectionTimeout != n.cfg.Election ||
		c.LeaderLeaseTimeout != n.cfg.LeaderLease {
		t.Errorf("heartbeat %v, election %v, lease %v", c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout)
	}
}
