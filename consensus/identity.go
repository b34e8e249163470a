package consensus

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/rota-hpc/rota/consensus/mark"
)

// The library identifies a member by its name and the id of its log, which is created with the log
// and stored in it. A member that returns with an empty log is therefore a different member,
// without a vote. Its answers do not count for the votes and entries that the lost log had
// promised.

// logIDKey is the key of the id in the log file.
var logIDKey = []byte("RotaLogID")

// logOwnerKey is the key of the member's name in the log file.
var logOwnerKey = []byte("RotaLogOwner")

// idSeparator separates name and log id. Member names cannot contain it.
const idSeparator = "#"

// logID returns the id of a log, and whether this call created it.
func logID(log *raftboltdb.BoltStore) (id string, made bool, err error) {
	b, err := log.Get(logIDKey)
	if err == nil {
		return string(b), false, nil
	}
	if !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return "", false, err
	}
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return "", false, err
	}
	id = hex.EncodeToString(random)
	return id, true, log.Set(logIDKey, []byte(id))
}

// serverID returns the library's identifier of m.
func (m Member) serverID() raft.ServerID { return raft.ServerID(m.Name + idSeparator + m.Log) }

// memberOf parses an identifier of serverID.
func memberOf(id raft.ServerID, addr raft.ServerAddress) Member {
	m := Member{Name: string(id), Addr: string(addr)}
	if i := strings.LastIndex(m.Name, idSeparator); i >= 0 {
		m.Name, m.Log = m.Name[:i], m.Name[i+1:]
	}
	return m
}

// hello is the first line that each end sends on a connection between members, in JSON.
type hello struct {
	From raft.ServerID `json:"from"`
	To   raft.ServerID `json:"to"`             // the member that the caller wants; in an answer, the caller
	Seen mark.Mark     `json:"seen"`           // how far the receiver has come, to the sender's knowledge
	Time string        `json:"time"`           // the sender's timeouts
	Sick string        `json:"sick,omitempty"` // why the sender takes no part in the cluster
}

// helloMax is the maximum size of a hello in bytes.
const helloMax = 2048

// greeter exchanges hellos on new connections, and checks what peers say.
type greeter struct {
	self  raft.ServerID
	known *witness
	// behind gets how far a peer has seen this member come. It returns an error if this member has
	// forgotten some of that.
	behind func(peer raft.ServerID, seen mark.Mark) error
	time   string                                // this member's timeouts
	others func(peer raft.ServerID, time string) // called for a peer with other timeouts
}

// compare reports a peer with other timeouts.
func (g *greeter) compare(peer raft.ServerID, time string) {
	if time != g.time {
		g.others(peer, time)
	}
}

// call starts a connection to the member that target names, and verifies that this member answers.
func (g *greeter) call(c net.Conn, target raft.ServerID, timeout time.Duration) error {
	begin := hello{From: g.self, To: target, Seen: g.known.of(target), Time: g.time}
	var answer hello
	err := within(c, timeout, func() error {
		if err := writeHello(c, begin); err != nil {
			return err
		}
		var err error
		answer, err = readHello(c)
		return err
	})
	if err != nil {
		return err
	}
	g.known.answered(target, answer.From)
	g.compare(answer.From, answer.Time)
	if answer.From != target {
		return &otherLogError{want: target, got: answer.From}
	}
	if answer.Sick != "" {
		return fmt.Errorf("%s takes no part: %s", target, answer.Sick)
	}
	g.known.meet(target)
	return g.behind(target, answer.Seen)
}

// answer answers the hello of an incoming connection. The peer learns this member's id even if it
// wanted another member.
func (g *greeter) answer(c net.Conn) error {
	return within(c, rpcTimeout, func() error {
		begin, err := readHello(c)
		if err != nil {
			return err
		}
		g.compare(begin.From, begin.Time)
		reply := hello{From: g.self, To: begin.From, Seen: g.known.of(begin.From), Time: g.time}
		var sick error
		if begin.To == g.self {
			if sick = g.behind(begin.From, begin.Seen); sick != nil {
				reply.Sick = sick.Error()
			}
		}
		if err := writeHello(c, reply); err != nil {
			return err
		}
		if begin.To != g.self {
			return &otherLogError{want: begin.To, got: g.self}
		}
		if sick == nil {
			g.known.meet(begin.From)
		}
		return sick
	})
}

// within runs f with a deadline on c.
func within(c net.Conn, timeout time.Duration, f func() error) error {
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

func writeHello(c net.Conn, h hello) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = c.Write(append(text, '\n'))
	return err
}

// readHello reads one line. A peer sends nothing else before it has received the other end's hello.
func readHello(c net.Conn) (hello, error) {
	var h hello
	r := bufio.NewReaderSize(c, helloMax)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return h, err
	}
	if r.Buffered() > 0 {
		return h, errors.New("a peer sent data after its hello")
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, fmt.Errorf("hello of a peer: %w", err)
	}
	return h, nil
}

// otherLogError says that the member at an address has another log than the cluster knows.
type otherLogError struct{ want, got raft.ServerID }

// Error implements error.
func (e *otherLogError) Error() string {
	want, got := memberOf(e.want, ""), memberOf(e.got, "")
	if want.Name != got.Name {
		return fmt.Sprintf("member %s answered at the address of member %s", got.Name, want.Name)
	}
	return fmt.Sprintf("member %s has lost its log: it has log %s, but the cluster knows it by log %s", want.Name,
		got.Log, want.Log)
}
