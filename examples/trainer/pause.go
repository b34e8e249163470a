package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
)

// switchboard is the job socket, $ROTA_SOCKET: there the node has the worker pause and go on. Orders
// are numbered; odd ones pause. A nil switchboard gives none.
type switchboard struct {
	conn net.Conn

	mu     sync.Mutex
	number int           // of the last order
	news   chan struct{} // closed when number changes, or the connection ends
	lost   bool          // it has ended
}

// openSwitchboard connects and says that this process comes by pause points.
func openSwitchboard(path string) (*switchboard, error) {
	if path == "" {
		return nil, nil
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("job socket: %w", err)
	}
	s := &switchboard{conn: conn, news: make(chan struct{})}
	if err := s.say("ready", 0); err != nil {
		conn.Close()
		return nil, err
	}
	go s.listen()
	return s, nil
}

func (s *switchboard) say(what string, number int) error {
	line, err := json.Marshal(struct {
		Say    string `json:"say"`
		Number int    `json:"number"`
	}{what, number})
	if err == nil {
		_, err = s.conn.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("tell the node %s: %w", what, err)
	}
	return nil
}

// listen takes orders until the connection ends. A stop also comes as a signal, and is left to that.
func (s *switchboard) listen() {
	lines := bufio.NewScanner(s.conn)
	for lines.Scan() {
		var order struct {
			Do     string
			Number int
		}
		if json.Unmarshal(lines.Bytes(), &order) != nil || order.Do == "stop" {
			continue
		}
		s.mu.Lock()
		s.number = max(s.number, order.Number)
		close(s.news)
		s.news = make(chan struct{})
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.lost = true
	close(s.news)
	s.mu.Unlock()
}

// last returns the number of the last order, and a channel that is closed when another one comes.
func (s *switchboard) last() (int, <-chan struct{}) {
	if s == nil {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number, s.news
}

func (s *switchboard) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// obey carries out an order that the gang has agreed on: it pauses until the next one, or until ctx
// ends.
func (s *switchboard) obey(ctx context.Context, number int) error {
	if number%2 == 0 {
		return s.say("resumed", number)
	}
	if err := s.say("paused", number); err != nil {
		return err
	}
	for {
		next, news := s.last()
		if next > number {
			return s.say("resumed", number+1)
		}
		if s.ended() {
			return nil // nothing could wake it
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *switchboard) close() {
	if s != nil {
		s.conn.Close()
	}
}
