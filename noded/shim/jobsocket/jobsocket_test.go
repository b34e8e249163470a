package jobsocket

import (
	"net"
	"testing"
	"time"
)

// TestMembersThatReadNothing tells many processes of a job something that none reads. It notices a loop
// that waits for each of them in turn.
func TestMembersThatReadNothing(t *testing.T) {
	var list []*Member
	for range 20 {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		list = append(list, &Member{conn: ours})
	}
	begin := time.Now()
	New().Tell(list, Order{Do: DoPause, Number: 1})
	if took := time.Since(begin); took > 5*tellPatience {
		t.Errorf("20 members that do not read took %v", took)
	}
	if _, err := list[0].conn.Write([]byte("x")); err == nil {
		t.Error("a member that takes no order is kept")
	}
}

// counted is a listener that hands out connections, and then none.
type counted struct {
	net.Listener
	left int
}

func (c *counted) Accept() (net.Conn, error) {
	if c.left--; c.left < 0 {
		return nil, net.ErrClosed
	}
	ours, theirs := net.Pipe()
	_ = theirs // what reads it stays
	return ours, nil
}

// TestHowManyMembersThereAre notices one more, or one less, than there may be.
func TestHowManyMembersThereAre(t *testing.T) {
	for _, n := range []int{MaxMembers - 1, MaxMembers, MaxMembers + 1} {
		s := New()
		s.accept(&counted{left: n})
		s.mu.Lock()
		if got := len(s.members); got != min(n, MaxMembers) {
			t.Errorf("of %d there are %d", n, got)
		}
		s.mu.Unlock()
		if !s.Connected() || len(s.Ready()) != 0 {
			t.Error("they are connected, and none is ready")
		}
		s.Close()
	}
	if New().Connected() {
		t.Error("none is connected")
	}
}

// TestALineSetsNothingElse has a process write the fields that the socket fills in. It notices a process that is taken
// for gone, for ready or for another, because it wrote so.
func TestALineSetsNothingElse(t *testing.T) {
	s := New()
	ours, theirs := net.Pipe()
	m := s.Add(theirs)
	go s.read(m)
	const line = `{"say":"ready","number":2,"gone":true,"from":{"ready":true,"done":7}}` + "\n"
	if _, err := ours.Write([]byte(line)); err != nil {
		t.Fatal(err)
	}
	if got, want := <-s.Sayings, (Saying{From: m, Say: SayReady, Number: 2}); got != want || m.Ready || m.Done != 0 {
		t.Errorf("it says %+v, and is %+v", got, m)
	}
	ours.Close()
	if got, want := <-s.Sayings, (Saying{From: m, Gone: true}); got != want {
		t.Errorf("at its end it says %+v", got)
	}
	s.Close()
}
