package shim

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
	maxMembers     = 1024
	maxSayingBytes = 4096
	sendPatience   = time.Second // for a process, or a daemon, that does not read
)

// jobSocket is where processes of the worker's tasks connect to take part in pausing. The contract
// is in docs/environment.md.
type jobSocket struct {
	listeners []net.Listener
	sayings   chan saying
	closed    chan struct{}

	mu      sync.Mutex
	members []*member
}

// member is a process that has connected. Only the supervisor's goroutine uses what it has said.
type member struct {
	conn  net.Conn
	ready bool // it comes by pause points
	done  int  // the last switch that it has carried out: odd, it has paused
}

func (m *member) paused() bool { return m.done%2 == 1 }

// The messages on the socket, in either direction.
const (
	sayReady   = "ready"
	sayPaused  = "paused"
	sayResumed = "resumed"

	doPause  = "pause"
	doResume = "resume"
	doStop   = "stop"
)

// saying is one line of a member, or its end.
type saying struct {
	from   *member
	Say    string `json:"say"`
	Number int    `json:"number"`
	gone   bool
}

// jobOrder is one line to a member.
type jobOrder struct {
	Do     string `json:"do"`
	Number int    `json:"number,omitempty"`
}

func newJobSocket() *jobSocket {
	return &jobSocket{sayings: make(chan saying), closed: make(chan struct{})}
}

// listen opens the socket of one task.
func (s *jobSocket) listen(dir string, user container.User) error {
	l, err := container.ListenJob(dir, user)
	if err != nil {
		return err
	}
	s.listeners = append(s.listeners, l)
	go s.accept(l)
	return nil
}

func (s *jobSocket) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		m := &member{conn: conn}
		s.mu.Lock()
		full := len(s.members) >= maxMembers
		if !full {
			s.members = append(s.members, m)
		}
		s.mu.Unlock()
		if full {
			conn.Close()
			continue
		}
		go s.read(m)
	}
}

// read passes on what a member says. A line that is too long or no JSON ends the connection.
func (s *jobSocket) read(m *member) {
	lines := bufio.NewScanner(m.conn)
	lines.Buffer(nil, maxSayingBytes)
	for lines.Scan() {
		one := saying{from: m}
		if json.Unmarshal(lines.Bytes(), &one) != nil {
			break
		}
		if one.Say == sayReady || one.Say == sayPaused || one.Say == sayResumed {
			s.say(one)
		}
	}
	m.conn.Close()
	s.mu.Lock()
	s.members = slices.DeleteFunc(s.members, func(o *member) bool { return o == m })
	s.mu.Unlock()
	s.say(saying{from: m, gone: true})
}

func (s *jobSocket) say(one saying) {
	select {
	case s.sayings <- one:
	case <-s.closed:
	}
}

// ready returns the members that come by pause points.
func (s *jobSocket) ready() []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.members), func(m *member) bool { return !m.ready })
}

// connected reports whether a process is connected.
func (s *jobSocket) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members) > 0
}

// tell sends an order to some members, to all of them at once. One that does not take it is dropped.
func (s *jobSocket) tell(list []*member, o jobOrder) {
	line, _ := json.Marshal(o) // a word and a number
	var sent sync.WaitGroup
	for _, m := range list {
		sent.Go(func() {
			_ = m.conn.SetWriteDeadline(time.Now().Add(sendPatience))
			if _, err := m.conn.Write(append(slices.Clone(line), '\n')); err != nil {
				m.conn.Close() // read then says that it is gone
			}
		})
	}
	sent.Wait()
}

// close ends all connections.
func (s *jobSocket) close() {
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
