package jobsteps

import (
	"encoding/json"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/jobspec/lossy"
)

// took handles a part's acknowledgement of input. The first one on a connection also says where
// this part's input goes on.
func (s *step) took(p *part, n int64) {
	if !p.input {
		return
	}
	p.taken = n
	if !p.ready {
		p.ready, p.have = true, n
	}
	s.tookMore()
}

// tookMore acknowledges input to the client, as far as every part has taken it. The client then
// forgets that input: a part whose connection breaks needs the rest sent again. Until all parts
// have named their positions nothing is acknowledged; the least one is where a new client begins to
// send.
func (s *step) tookMore() {
	least, takes := int64(0), false
	for _, p := range s.parts {
		if !p.input || p.ended {
			continue
		}
		if !p.ready {
			return
		}
		if !takes || p.taken < least {
			least, takes = p.taken, true
		}
	}
	if !takes || s.client == nil || !s.fresh && least <= s.heard {
		return
	}
	if s.fresh {
		s.fresh, s.position = false, least
	}
	s.heard = least
	s.pending = append(s.pending, stream.Number(least))
}

// asked handles a frame of the client.
func (s *step) asked(f stream.Frame) {
	switch f.Kind {
	case stream.Ack:
		if n, err := f.Offset(); err == nil && int64(f.Task) < int64(len(s.parts)) {
			p := s.parts[f.Task]
			p.known = n
			s.acknowledge(p)
		}
	case stream.Stdin:
		for _, p := range s.parts {
			if p.input && !p.ended && p.ready && p.have < s.position+int64(len(f.Data)) {
				// A new client sends from the least position. A part that is further skips the
				// bytes that it has already.
				rest := f.Data[max(0, p.have-s.position):]
				p.write(stream.Frame{Kind: f.Kind, Task: s.local(p, f.Task), Data: rest})
				p.have = s.position + int64(len(f.Data))
			}
		}
		s.position += int64(len(f.Data))
	case stream.StdinEnd:
		for _, p := range s.parts {
			if p.input && !p.ended {
				p.write(stream.Frame{Kind: f.Kind, Task: s.local(p, f.Task)})
			}
		}
	case stream.Window:
		for i, p := range s.parts { // only task 0 has the terminal
			if s.hasTask(s.Shares[i], "0") {
				p.write(stream.Frame{Kind: f.Kind, Data: f.Data})
			}
		}
	case stream.Signal:
		s.signal(string(f.Data))
	case stream.Lost:
		var l lossy.Loss
		if json.Unmarshal(f.Data, &l) == nil && l.Possible() && l.Bytes > s.lost.Bytes {
			s.lost = l
		}
	}
}

// local turns the number of a task in the step into its number in a part.
func (s *step) local(p *part, task uint32) uint32 {
	for i, n := range s.Shares[p.index].Tasks {
		if uint32(n) == task {
			return uint32(i)
		}
	}
	return stream.AllTasks
}
