// Package jobsocket is the socket at which the processes of a job take part in pausing. The contract is
// in docs/environment.md.
package jobsocket

import (
	"bufio"
	"encoding/json"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// Messages of a process on the job socket are bounded: it is the user's, and may write anything.
const (
	MaxMembers   = 1024        // of one worker
	MaxSaying    = 4096        // bytes
	tellPatience = time.Second // for a process that does not read
)

// Socket is where processes of the worker's tasks connect to take part in pausing.
type Socket struct {
	listeners []net.Listener
	Sayings   chan Saying // of all members
	closed    chan struct{}

	mu      sync.Mutex
	members []*Member
}

// Member is a process that has connected. Ready and Done belong to the goroutine that takes Sayings.
type Member struct {
	conn  net.Conn
	Ready bool // it comes by pause points
	Done  int  // the last switch that it has carried out: odd, it has paused
}

// Paused reports whether the last switch of the process was to pause.
func (m *Member) Paused() bool { return m.Done%2 == 1 }

// The messages on the socket, in either direction.
const (
	SayReady   = "ready"
	SayPaused  = "paused"
	SayResumed = "resumed"

	DoPause  = "pause"
	DoResume = "resume"
	DoStop   = "stop"
)

// Saying is one line of a member, or its end.
type Saying struct {
	From   *Member `json:"-"`
	Gone   bool    `json:"-"` // its end: it says nothing
	Say    string  `json:"say"`
	Number int     `json:"number"`
}

// Order is one line to a member.
type Order struct {
	Do     string `json:"do"`
	Number int    `json:"number,omitempty"`
}

// New returns a socket without tasks.
func New() *Socket {
	return &Socket{Sayings: make(chan Saying), closed: make(chan struct{})}
}

// Listen opens the socket of one task.
func (s *Socket) Listen(dir string, user container.User) error {
	l, err := container.ListenJob(dir, user)
	if err != nil {
		return err
	}
	s.listeners = append(s.listeners, l)
	go s.accept(l)
	return nil
}

func (s *Socket) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if m := s.Add(conn); m != nil {
			go s.read(m)
		} else {
			conn.Close()
		}
	}
}

// Add makes a connection a member, nil if there are too many.
func (s *Socket) Add(conn net.Conn) *Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.members) >= MaxMembers {
		return nil
	}
	m := &Member{conn: conn}
	s.members = append(s.members, m)
	return m
}

// read passes on what a member says. A line that is too long or no JSON ends the connection.
func (s *Socket) read(m *Member) {
	lines := bufio.NewScanner(m.conn)
	lines.Buffer(nil, MaxSaying)
	for lines.Scan() {
		one := Saying{From: m}
		if json.Unmarshal(lines.Bytes(), &one) != nil {
			break
		}
		if one.Say == SayReady || one.Say == SayPaused || one.Say == SayResumed {
			s.say(one)
		}
	}
	m.conn.Close()
	s.mu.Lock()
	s.members = slices.DeleteFunc(s.members, func(o *Member) bool { return o == m })
	s.mu.Unlock()
	s.say(Saying{From: m, Gone: true})
}

func (s *Socket) say(one Saying) {
	select {
	case s.Sayings <- one:
	case <-s.closed:
	}
}

// Ready returns the members that come by pause points.
func (s *Socket) Ready() []*Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.members), func(m *Member) bool { return !m.Ready })
}

// Connected reports whether a process is connected.
func (s *Socket) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members) > 0
}

// Tell sends an order to some members, to all of them at once. One that does not take it is dropped.
func (s *Socket) Tell(list []*Member, o Order) {
	line, _ := json.Marshal(o) // a word and a number
	var sent sync.WaitGroup
	for _, m := range list {
		sent.Go(func() {
			_ = m.conn.SetWriteDeadline(time.Now().Add(tellPatience))
			if _, err := m.conn.Write(append(slices.Clone(line), '\n')); err != nil {
				m.conn.Close() // read then says that it is gone
			}
		})
	}
	sent.Wait()
}

// Close ends all connections.
func (s *Socket) Close() {
	close(s.closed)
	for _, l := range s.listeners {
		l.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		m.conn.Close()
	}
}
