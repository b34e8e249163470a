//nolint:misspell // the protocols have their own spelling
package pmi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// Server keeps the key-value table of one MPI program and answers its processes.
type Server struct {
	name  string
	nodes []int // node of each rank
	abort func(rank int, why string)

	mu      sync.Mutex
	table   map[string]string
	bytes   int                 // size of the table
	local   []map[string]string // table of each node
	changed sync.Cond           // a value was stored, or a process has left
	waiting []func()            // replies to the processes that wait in the barrier
}

// maxTable bounds the size of the table in bytes.
const maxTable = 256 << 20

// NewServer returns the server of a program; nodes has the node of each rank. abort is called when
// a process asks to end the whole program.
func NewServer(name string, nodes []int, abort func(rank int, why string)) *Server {
	s := &Server{name: name, nodes: nodes, abort: abort, table: map[string]string{"PMI_process_mapping": mapping(nodes)}}
	for _, n := range nodes {
		for len(s.local) <= n {
			s.local = append(s.local, map[string]string{})
		}
	}
	s.changed.L = &s.mu
	return s
}

// mapping describes which ranks run on which node: (vector,(0,2,3)) means three ranks on each of
// two nodes, from node 0 on.
func mapping(nodes []int) string {
	type run struct{ first, count, ranks int }
	var runs []run
	for i := 0; i < len(nodes); {
		n := i
		for n < len(nodes) && nodes[n] == nodes[i] {
			n++
		}
		last := len(runs) - 1
		if last >= 0 && runs[last].ranks == n-i && runs[last].first+runs[last].count == nodes[i] {
			runs[last].count++
		} else {
			runs = append(runs, run{nodes[i], 1, n - i})
		}
		i = n
	}
	var b strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&b, ",(%d,%d,%d)", r.first, r.count, r.ranks)
	}
	return "(vector" + b.String() + ")"
}

// process is the connection to one rank.
type process struct {
	*Server
	rank  int
	in    *bufio.Reader
	out   io.Writer
	write sync.Mutex
	two   bool // it uses PMI-2
	done  bool // it has sent finalize

	gone  bool // its connection is closed; guarded by the server's lock
	waits int  // number of its pending reads of node-local values
}

// maxWaits bounds the pending reads of node-local values of one process.
const maxWaits = 1024

// Serve answers one process until its connection ends. The error describes a violation of the
// protocol by the process.
func (s *Server) Serve(rank int, conn io.ReadWriter) error {
	p := &process{Server: s, rank: rank, in: bufio.NewReader(conn), out: conn}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.gone = true
		s.changed.Broadcast()
	}()
	for !p.done {
		read := func() (message, error) { return readLine(p.in) }
		if p.two {
			read = func() (message, error) { return readBlock(p.in) }
		}
		m, err := read()
		if err == nil {
			err = p.answer(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// say sends a message.
func (p *process) say(m message) error {
	p.write.Lock()
	defer p.write.Unlock()
	b := m.line()
	if p.two {
		b = m.block()
	}
	_, err := p.out.Write(b)
	return err
}

func (p *process) answer(m message) error {
	if p.two {
		return p.answer2(m)
	}
	switch m.command() {
	case "init":
		return p.init(m)
	case "get_maxes":
		return p.say(message{{"cmd", "maxes"}, {"kvsname_max", itoa(maxName)}, {"keylen_max", itoa(maxKey)},
			{"vallen_max", itoa(maxValue)}})
	case "get_universe_size":
		return p.say(message{{"cmd", "universe_size"}, {"size", itoa(len(p.nodes))}})
	case "get_appnum":
		return p.say(message{{"cmd", "appnum"}, {"appnum", "0"}})
	case "get_my_kvsname":
		return p.say(message{{"cmd", "my_kvsname"}, {"kvsname", p.name}})
	case "put":
		rc, text := "0", "success"
		if err := p.put(m.get("key"), m.get("value")); err != nil {
			rc, text = "-1", word(err.Error())
		}
		return p.say(message{{"cmd", "put_result"}, {"rc", rc}, {"msg", text}})
	case "get":
		value, found := p.get(m.get("key"))
		if m.get("kvsname") != p.name || !found {
			return p.say(message{{"cmd", "get_result"}, {"rc", "-1"}, {"msg", "key_not_found"}, {"value", "unknown"}})
		}
		return p.say(message{{"cmd", "get_result"}, {"rc", "0"}, {"msg", "success"}, {"value", value}})
	case "barrier_in":
		return p.meet(message{{"cmd", "barrier_out"}, {"rc", "0"}})
	case "finalize":
		p.done = true
		return p.say(message{{"cmd", "finalize_ack"}, {"rc", "0"}})
	case "abort":
		p.done = true
		p.Server.abort(p.rank, "exit code "+m.get("exitcode"))
		return nil
	case "publish_name", "unpublish_name", "lookup_name":
		return p.say(message{{"cmd", strings.TrimSuffix(m.command(), "_name") + "_result"}, {"info", "fail"}, {"rc", "-1"},
			{"msg", "not_supported"}})
	}
	return fmt.Errorf("%q is not supported", m.get("cmd")+m.get("mcmd"))
}

// init negotiates the version of the protocol.
func (p *process) init(m message) error {
	version := m.get("pmi_version")
	if version != "1" && version != "2" {
		return errors.Join(p.say(message{{"cmd", "response_to_init"}, {"pmi_version", "1"}, {"pmi_subversion", "1"},
			{"rc", "-1"}}), fmt.Errorf("PMI version %q is not supported", version))
	}
	sub := map[string]string{"1": "1", "2": "0"}[version]
	err := p.say(message{{"cmd", "response_to_init"}, {"pmi_version", version}, {"pmi_subversion", sub}, {"rc", "0"}})
	p.two = version == "2"
	return err
}

// answer2 answers a message of PMI-2.
func (p *process) answer2(m message) error {
	reply := message{{"cmd", m.command() + "-response"}}
	if id := m.get("thrid"); id != "" {
		reply = append(reply, pair{"thrid", id})
	}
	good := pair{"rc", "0"}
	switch m.command() {
	case "fullinit":
		reply = append(reply, pair{"pmi-version", "2"}, pair{"pmi-subversion", "0"}, pair{"rank", itoa(p.rank)},
			pair{"size", itoa(len(p.nodes))}, pair{"appnum", "0"}, pair{"debugged", "FALSE"}, pair{"pmiverbose", "FALSE"}, good)
	case "job-getid":
		reply = append(reply, pair{"jobid", p.name}, good)
	case "kvs-put":
		reply = append(reply, result(p.put(m.get("key"), m.get("value")))...)
	case "kvs-get":
		value, found := p.get(m.get("key"))
		reply = append(append(reply, lookedUp(value, found)...), good)
	case "kvs-fence":
		return p.meet(append(reply, good))
	case "info-putnodeattr":
		reply = append(reply, result(p.putLocal(m.get("key"), m.get("value")))...)
	case "info-getnodeattr":
		if isTrue(m.get("wait")) {
			if p.waits++; p.waits > maxWaits {
				return fmt.Errorf("it has more than %d pending reads of its node's values", maxWaits)
			}
			go func() { // another thread of the process may continue meanwhile
				if value, found := p.getLocal(m.get("key"), true); found {
					_ = p.say(append(append(reply, lookedUp(value, true)...), good)) // its reader notices a failure
				}
			}()
			return nil
		}
		value, found := p.getLocal(m.get("key"), false)
		reply = append(append(reply, lookedUp(value, found)...), good)
	case "info-getjobattr":
		value, found := p.get(m.get("key"))
		if m.get("key") == "universeSize" {
			value, found = itoa(len(p.nodes)), true
		}
		reply = append(append(reply, lookedUp(value, found)...), good)
	case "finalize":
		p.done = true
		reply = append(reply, good)
	case "abort":
		p.done = true
		p.Server.abort(p.rank, m.get("msg"))
		return nil
	default:
		reply = append(reply, result(fmt.Errorf("%s is not supported", m.command()))...)
	}
	return p.say(reply)
}

func isTrue(text string) bool { return strings.EqualFold(text, "true") }

// result replies whether a request succeeded.
func result(err error) message {
	if err != nil {
		return message{{"rc", "1"}, {"errmsg", err.Error()}}
	}
	return message{{"rc", "0"}}
}

func lookedUp(value string, found bool) message {
	if !found {
		return message{{"found", "FALSE"}}
	}
	return message{{"found", "TRUE"}, {"value", value}}
}

func (s *Server) get(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found := s.table[key]
	return value, found
}

func (s *Server) put(key, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store(s.table, key, value)
}

// store stores a value in a table. The caller holds the lock.
func (s *Server) store(table map[string]string, key, value string) error {
	size := len(key) + len(value)
	switch {
	case key == "" || len(key) > maxKey || len(value) > maxValue:
		return fmt.Errorf("a key has 1 to %d bytes and a value at most %d", maxKey, maxValue)
	case s.bytes+size > maxTable:
		return errors.New("the table is full")
	}
	s.bytes += size
	table[key] = value
	s.changed.Broadcast()
	return nil
}

func (p *process) putLocal(key, value string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.store(p.local[p.nodes[p.rank]], key, value)
}

// getLocal replies with a value from the table of the process's node. It may wait until another
// process stores the value.
func (p *process) getLocal(key string, wait bool) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		value, found := p.local[p.nodes[p.rank]][key]
		if found || !wait || p.gone {
			return value, found
		}
		p.changed.Wait()
	}
}

// meet is the barrier: it replies when all processes have called it.
func (p *process) meet(reply message) error {
	p.mu.Lock()
	p.waiting = append(p.waiting, func() { _ = p.say(reply) }) // its reader notices a failed write
	var ready []func()
	if len(p.waiting) == len(p.nodes) {
		ready, p.waiting = p.waiting, nil
	}
	p.mu.Unlock()
	for _, answer := range ready {
		answer()
	}
	return nil
}

// word replaces blanks, which values of PMI-1 cannot contain.
func word(text string) string { return strings.ReplaceAll(text, " ", "_") }

func itoa(n int) string { return strconv.Itoa(n) }
